//! Whole Dockerfiles: their evaluation, errors with lines, and robustness against any text.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cabana_image::Digest;
use cabana_image::dockerfile::{Action, CopyFrom, Dockerfile, DockerfileError, Evaluated, Plan, StageBase, Step};
use cabana_image::manifest::{Defaults, Platform};
use proptest::prelude::*;

fn arguments(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn plan(text: &str) -> Result<Plan, DockerfileError> {
    Dockerfile::parse(text)?.plan(None, &BTreeMap::new())
}

fn image() -> Defaults {
    Defaults {
        env: vec!["PATH=/bin".to_owned(), "FROM_IMAGE=yes".to_owned()],
        cmd: vec!["old".to_owned()],
        working_dir: "/home".to_owned(),
        ..Defaults::default()
    }
}

fn evaluate(text: &str) -> Result<Vec<Evaluated>, DockerfileError> {
    plan(text)?.evaluate_all(|_| Ok(image()))
}

fn last(text: &str) -> Evaluated {
    evaluate(text).unwrap_or_else(|error| panic!("{error}\n{text}")).pop().unwrap()
}

fn runs(evaluated: &Evaluated) -> Vec<Vec<String>> {
    let run = |step: &Step| match &step.action {
        Action::Run(program) => Some(program.clone()),
        _ => None,
    };
    evaluated.steps.iter().filter_map(run).collect()
}

#[test]
fn a_usual_one() {
    let done = last(
        r#"# syntax=docker/dockerfile:1
ARG VERSION=12
FROM debian:${VERSION}-slim
ARG WHO=world
ENV GREETING="hello $WHO" PATH=/opt/bin:$PATH
LABEL org.example="x y" other=$GREETING
WORKDIR /app
WORKDIR sub
COPY --chown=1000:1000 --chmod=640 package*.json lib ./
RUN apt-get update \
    # comments may stand here
    && apt-get install -y curl
RUN ["echo", "$WHO"]
USER user:staff
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN set | grep x
EXPOSE 80 8000-8010/udp 80/tcp
ENTRYPOINT ["/entry"]
CMD run --fast
HEALTHCHECK CMD true
VOLUME /data
"#,
    );
    assert_eq!(
        runs(&done),
        [
            vec!["/bin/sh", "-c", "apt-get update     && apt-get install -y curl"],
            vec!["echo", "$WHO"],
            vec!["/bin/bash", "-o", "pipefail", "-c", "set | grep x"]
        ]
    );
    let copy = done
        .steps
        .iter()
        .find_map(|step| if let Action::Copy(copy) = &step.action { Some(copy) } else { None })
        .unwrap();
    assert_eq!(
        (&copy.sources[..], &copy.destination[..]),
        (&["package*.json".to_owned(), "lib".to_owned()][..], "/app/sub/")
    );
    assert_eq!((copy.owner.as_deref(), copy.mode, &copy.from), (Some("1000:1000"), Some(0o640), &CopyFrom::Context));
    let step = done.steps.last().unwrap();
    assert_eq!((&step.user[..], &step.directory[..], step.line), ("user:staff", "/app/sub", 16));
    assert_eq!(step.environment["GREETING"], "hello world");
    assert_eq!(step.environment["WHO"], "world", "steps see arguments");
    let defaults = &done.defaults;
    let environment = defaults.environment();
    assert_eq!((&environment["PATH"][..], environment.contains_key("WHO")), ("/opt/bin:/bin", false));
    assert_eq!((&defaults.user[..], &defaults.working_dir[..]), ("user:staff", "/app/sub"));
    assert_eq!(defaults.labels["other"], "hello world");
    assert_eq!(defaults.exposed_ports, ["80/tcp", "8000-8010/udp"]);
    assert_eq!(defaults.entrypoint, ["/entry"]);
    assert_eq!(defaults.cmd, ["/bin/bash", "-o", "pipefail", "-c", "run --fast"]);
}

#[test]
fn only_needed_stages_are_planned() {
    let text = "FROM golang AS build\nRUN go build\nFROM node AS unused\nRUN npm i\nFROM build AS test\nRUN go test\n\
                FROM scratch\nCOPY --from=build /out /\nCOPY --from=0 /a /b\nCOPY --from=ghcr.io/x/y:1 /z /z\n";
    let file = Dockerfile::parse(text).unwrap();
    let bases = |plan: &Plan| plan.stages.iter().map(|stage| stage.base.clone()).collect::<Vec<_>>();
    let whole = file.plan(None, &BTreeMap::new()).unwrap();
    assert_eq!(bases(&whole), [StageBase::Image("golang".to_owned()), StageBase::Scratch]);
    assert_eq!(whole.stages[1].images, ["ghcr.io/x/y:1"]);
    let done = whole.evaluate_all(|_| Ok::<_, DockerfileError>(image())).unwrap();
    let froms: Vec<CopyFrom> = done[1]
        .steps
        .iter()
        .filter_map(|step| if let Action::Copy(copy) = &step.action { Some(copy.from.clone()) } else { None })
        .collect();
    assert_eq!(froms, [CopyFrom::Stage(0), CopyFrom::Stage(0), CopyFrom::Image("ghcr.io/x/y:1".to_owned())]);
    assert!(done[1].defaults.env.is_empty(), "scratch says nothing");
    let later = plan("FROM a\nCOPY --from=b /x /x\nFROM c AS b\nCOPY --from=0 /x /y\nCOPY --from=b /x /z").unwrap();
    assert_eq!(
        (&later.stages[0].images[..], &later.stages[1].images[..]),
        (&["b".to_owned()][..], &["b".to_owned()][..])
    );
    let done = later.evaluate_all(|_| Ok::<_, DockerfileError>(image())).unwrap();
    assert!(matches!(&done[0].steps[0].action, Action::Copy(copy) if copy.from == CopyFrom::Image("b".to_owned())));
    assert!(matches!(&done[1].steps[1].action, Action::Copy(copy) if copy.from == CopyFrom::Image("b".to_owned())));
    let test = file.plan(Some("TEST"), &BTreeMap::new()).unwrap();
    assert_eq!(bases(&test), [StageBase::Image("golang".to_owned()), StageBase::Stage(0)]);
    assert_eq!(file.plan(Some("1"), &BTreeMap::new()).unwrap().stages.len(), 1);
    assert!(file.plan(Some("nope"), &BTreeMap::new()).is_err());
}

#[test]
fn scopes_of_arguments() {
    let text = "ARG A=1\nARG B=$A-b\nFROM x:$B\nARG A\nARG C=${A}c\nARG TARGETARCH\nENV A=env\nRUN 1\nFROM x\nRUN 2\nFROM x AS base\nARG D=d\nFROM base\nRUN 3";
    let file = Dockerfile::parse(text).unwrap();
    let all = |given: &[(&str, &str)], target: &str| {
        let plan = file.plan(Some(target), &arguments(given)).unwrap();
        let base = plan.stages[0].base.clone();
        let done = plan.evaluate_all(|_| Ok::<_, DockerfileError>(image())).unwrap().pop().unwrap();
        (base, done.steps[0].environment.clone(), plan.notes)
    };
    let (base, environment, _) = all(&[], "0");
    assert_eq!(base, StageBase::Image("x:1-b".to_owned()));
    assert_eq!((&environment["C"][..], &environment["A"][..]), ("1c", "env"), "the environment counts more");
    assert_eq!(environment["TARGETARCH"], Platform::here().architecture);
    let (base, environment, notes) = all(&[("A", "9"), ("Z", "z"), ("http_proxy", "p")], "0");
    assert_eq!((base, &environment["C"][..]), (StageBase::Image("x:9-b".to_owned()), "9c"));
    assert_eq!(environment["http_proxy"], "p");
    assert!(notes.len() == 1 && notes[0].text.contains('Z'), "{notes:?}");
    assert!(!all(&[], "1").1.contains_key("A"), "arguments end with their stage");
    assert_eq!(all(&[], "3").1["D"], "d", "and go on in stages based on it");
}

#[test]
fn heredocs() {
    let text = "FROM x\nENV N=1\nRUN <<EOF\necho $N\n# kept\nEOF\nRUN python3 <<'PY' && true\nprint(1)\nPY\n\
                COPY <<one <<'two' /etc/\nvalue $N\none\nvalue $N\ntwo\nCOPY <<-file /x\n\tindented\n\tfile\n";
    let done = last(text);
    assert_eq!(
        runs(&done),
        [vec!["/bin/sh", "-c", "echo $N\n# kept\n"], vec!["/bin/sh", "-c", "python3 <<'PY' && true\nprint(1)\nPY\n"]]
    );
    let files: Vec<(String, String)> = done
        .steps
        .iter()
        .filter_map(|step| if let Action::Copy(copy) = &step.action { Some(copy.inline.clone()) } else { None })
        .flatten()
        .map(|file| (file.name, file.content))
        .collect();
    let script = last("FROM x\nRUN <<EOF\n#!/usr/bin/env python3\nprint(1)\nEOF\n");
    assert_eq!(script.steps[0].action, Action::RunScript("#!/usr/bin/env python3\nprint(1)\n".to_owned()));
    let expected = [("one", "value 1\n"), ("two", "value $N\n"), ("file", "indented\n")];
    assert_eq!(files, expected.map(|(name, content)| (name.to_owned(), content.to_owned())));
}

#[test]
fn mounts_are_ignored_or_copied() {
    let done = evaluate(
        "FROM node AS deps\nRUN npm ci\nFROM node\nWORKDIR /app\n\
         RUN --mount=type=bind,source=package.json,target=package.json \\\n \
         --mount=type=cache,target=/root/.npm --mount=from=deps,src=/x,dst=/y --mount=target=. npm ci\n",
    )
    .unwrap();
    let copies: Vec<(CopyFrom, String, String)> = done[1]
        .steps
        .iter()
        .filter_map(|step| if let Action::Copy(copy) = &step.action { Some(copy) } else { None })
        .map(|copy| (copy.from.clone(), copy.sources[0].clone(), copy.destination.clone()))
        .collect();
    let of = |from: CopyFrom, source: &str, target: &str| (from, source.to_owned(), target.to_owned());
    let expected = [
        of(CopyFrom::Context, "package.json", "/app/package.json"),
        of(CopyFrom::Stage(0), "/x", "/y"),
        of(CopyFrom::Context, ".", "/app/"),
    ];
    assert_eq!(copies, expected);
    assert_eq!(runs(&done[1]), [vec!["/bin/sh", "-c", "npm ci"]]);
}

#[test]
fn commands_of_base_images() {
    assert_eq!(last("FROM x").defaults.cmd, ["old"]);
    assert!(last("FROM x\nENTRYPOINT [\"/e\"]").defaults.cmd.is_empty(), "a new entrypoint ends the image's command");
    assert_eq!(last("FROM x\nCMD [\"c\"]\nENTRYPOINT [\"/e\"]").defaults.cmd, ["c"]);
    let plan = plan("FROM x\nRUN own").unwrap();
    let triggers = Defaults { on_build: vec!["COPY . /src".to_owned(), "RUN make".to_owned()], ..Defaults::default() };
    let done = plan.evaluate(0, &Evaluated::of_image(triggers)).unwrap();
    assert_eq!(done.steps.len(), 3);
    assert!(done.defaults.on_build.is_empty());
    let bad = Defaults { on_build: vec!["FROM y".to_owned()], ..Defaults::default() };
    assert!(plan.evaluate(0, &Evaluated::of_image(bad)).is_err());
}

#[test]
fn errors_name_their_line() {
    for (text, line, reason) in [
        ("", 1, "no FROM"),
        ("# only a comment\n", 1, "no FROM"),
        ("\n\nRUN x", 3, "must be FROM"),
        ("FROM", 1, "FROM image"),
        ("FROM a b", 1, "FROM image"),
        ("FROM a AS 1x", 1, "begins with a letter"),
        ("FROM a AS x\nFROM b AS X", 2, "already there"),
        ("FROM $NOPE", 1, "is empty"),
        ("FROM --platform=linux/s390x a", 1, "this machine runs"),
        ("FROM --pull a", 1, "does not know --pull"),
        ("FROM a\n\nFOO bar", 3, "FOO is not an instruction"),
        ("FROM a\nRUN", 2, "nothing behind"),
        ("FROM a\nRUN --mount=type=secret,id=x cat", 2, "type=secret is not supported"),
        ("FROM a\nRUN --mount=type=ssh git clone", 2, "type=ssh is not supported"),
        ("FROM a\nRUN --mount=type=bind,source=x ls", 2, "needs target"),
        ("FROM a\nRUN --mount=from=7,target=/x ls", 2, "earlier stages"),
        ("FROM a\nRUN --network=host ls", 2, "not supported"),
        ("FROM a\nRUN --security=insecure ls", 2, "not supported"),
        ("FROM a\nRUN --what ls", 2, "does not know"),
        ("FROM a\nCOPY x", 2, "what and where"),
        ("FROM a\nCOPY a b c", 2, "must be a directory"),
        ("FROM a\nCOPY --chmod=u+x a b", 2, "only numbers"),
        ("FROM a\nCOPY --parents a b", 2, "not supported"),
        ("FROM a\nCOPY --from=3 a b", 2, "earlier stages"),
        ("FROM a\nCOPY --from a b", 2, "needs a value"),
        ("FROM a\nCOPY $NOPE b", 2, "empty"),
        ("FROM a\nCOPY x /proc/self/fd/3", 2, "/proc"),
        ("FROM a\nADD https://example.com/x /x", 2, "RUN curl"),
        ("FROM a\nADD --from=b x y", 2, "does not know --from"),
        ("FROM a\nWORKDIR /proc/self/fd/8", 2, "/proc"),
        ("FROM a\nWORKDIR x/../../../../proc/1", 2, "/proc"),
        ("FROM a\nENV A", 2, "has no value"),
        ("FROM a\nENV A=1 B", 2, "has no value"),
        ("FROM a\nENV A='1", 2, "does not end"),
        ("FROM a\nARG 1A=2", 2, "not the name"),
        ("FROM a\nARG X\nRUN true\nENV Y=\"${X:?give X}\"", 4, "X is not set: give X"),
        ("FROM a\nEXPOSE http", 2, "not a port"),
        ("FROM a\nUSER a b", 2, "user or user:group"),
        ("FROM a\nSHELL /bin/bash", 2, "as a list"),
        ("FROM a\nCMD [\"a\", b]", 2, "not valid JSON"),
        ("FROM a\nHEALTHCHECK curl x", 2, "HEALTHCHECK CMD"),
        ("FROM a\nHEALTHCHECK --often CMD x", 2, "no option --often"),
        ("FROM a\nRUN <<EOF\nx", 2, "does not end"),
        ("FROM a\nRUN x\0", 1, "not a text"),
    ] {
        match evaluate(text) {
            Err(error) => assert!(error.line == line && error.reason.contains(reason), "{text:?}: {error}"),
            Ok(_) => panic!("{text:?} was taken"),
        }
    }
    let harmless = "FROM a\nRUN --mount=type=cache,target=/c x\nHEALTHCHECK --interval=1s NONE\nSTOPSIGNAL 9\nVOLUME /x\nMAINTAINER me\nONBUILD RUN x\nRUN [ -f x ] && y";
    let plan = plan(harmless).unwrap();
    assert_eq!(plan.notes.iter().map(|note| note.line).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7]);
    assert_eq!(plan.evaluate_all(|_| Ok::<_, DockerfileError>(image())).unwrap()[0].steps.len(), 2);
}

#[test]
fn health_checks_become_ready_commands() {
    assert_eq!(
        last("FROM x\nHEALTHCHECK --retries=3 CMD curl -f localhost").defaults.healthcheck,
        ["/bin/sh", "-c", "curl -f localhost"]
    );
    assert_eq!(last("FROM x\nHEALTHCHECK CMD [\"/probe\"]").defaults.healthcheck, ["/probe"]);
    assert_eq!(last("FROM x\nHEALTHCHECK CMD a\nHEALTHCHECK NONE").defaults.healthcheck, Vec::<String>::new());
    for (test, program) in [
        (r#"["CMD","/probe","-x"]"#, vec!["/probe", "-x"]),
        (r#"["CMD-SHELL","a && b"]"#, vec!["/bin/sh", "-c", "a && b"]),
        (r#"["NONE"]"#, vec![]),
        (r#"null"#, vec![]),
        (r#"["CMD-SHELL"]"#, vec![]),
    ] {
        let config = format!(r#"{{"Healthcheck":{{"Test":{test},"Interval":1}}}}"#);
        assert_eq!(serde_json::from_str::<Defaults>(&config).unwrap().healthcheck, program, "{test}");
    }
}

#[test]
fn cache_keys_change_with_the_result() {
    let key = |text: &str, files: Option<Digest>| last(text).steps.last().unwrap().key(Digest::of(b"base"), files);
    let base = key("FROM x\nRUN a", None);
    assert_eq!(base, key("# a comment\nFROM x\n\nRUN   a", None), "form and place do not count");
    for other in [
        "FROM x\nRUN b",
        "FROM x\nENV A=1\nRUN a",
        "FROM x\nUSER u\nRUN a",
        "FROM x\nWORKDIR /w\nRUN a",
        "FROM x\nARG Z=1\nRUN a",
        "FROM x\nSHELL [\"/x\"]\nRUN a",
    ] {
        assert_ne!(base, key(other, None), "{other}");
    }
    let copy = |n: u8| key("FROM x\nCOPY a b", Some(Digest::of(&[n])));
    assert_ne!(copy(1), copy(2));
}

#[test]
fn expansion_is_bounded() {
    let started = Instant::now();
    let growing = format!("FROM x\nENV A=xxxxxxxxxxxxxxxx\n{}", "ENV A=$A$A$A$A\n".repeat(100));
    assert!(evaluate(&growing).unwrap_err().reason.contains("larger than"));
    for text in [
        "FROM x\n".repeat(100_000),
        format!("FROM x\n{}", "RUN x\n".repeat(100_000)),
        format!("FROM x\nRUN {}", "\\\n".repeat(400_000)),
        format!("FROM x\nRUN {}", "<<A ".repeat(100_000)),
        format!("FROM x\nENV A={}", "${A:-".repeat(100_000)),
        format!("FROM x\nENV {}", "A=1 ".repeat(200_000)),
        format!("FROM x\nCOPY {} /", "--link ".repeat(100_000)),
        "x".repeat(2 << 20),
    ] {
        let _ = evaluate(&text);
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 8, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = evaluate(&text);
    }

    #[test]
    fn any_instructions_are_read_or_refused(lines in proptest::collection::vec(line(), 0..12), escape in any::<bool>()) {
        let head = if escape { "# escape=`\n" } else { "" };
        let text = format!("{head}FROM x\n{}", lines.join("\n"));
        if let Err(error) = evaluate(&text) {
            prop_assert!(error.line >= 1 && error.line <= text.lines().count().max(1), "{} {}", error, text);
            prop_assert!(!error.reason.is_empty() && error.reason.len() < 3000);
        }
    }
}

fn line() -> impl Strategy<Value = String> {
    let keyword = prop::sample::select(vec![
        "FROM",
        "RUN",
        "COPY",
        "ADD",
        "ENV",
        "ARG",
        "WORKDIR",
        "USER",
        "EXPOSE",
        "LABEL",
        "ENTRYPOINT",
        "CMD",
        "SHELL",
        "HEALTHCHECK",
        "ONBUILD",
        "run",
        "#",
        "",
    ]);
    let word = prop::sample::select(vec![
        "a",
        "b=c",
        "\"q r\"",
        "'",
        "\"",
        "$A",
        "${A:-b}",
        "${",
        "}",
        "--from=0",
        "--chown=a",
        "--mount=type=cache",
        "--",
        "<<EOF",
        "EOF",
        "[\"x\"]",
        "[",
        "\\",
        "`",
        "AS",
        "/",
        "./",
        "..",
        "80/tcp",
        "\t",
        "=",
        "é",
        "\\\n",
        "`\n",
        "\nEOF\n",
    ]);
    (keyword, proptest::collection::vec(word, 0..7))
        .prop_map(|(keyword, words)| format!("{keyword} {}", words.join(" ")))
}
