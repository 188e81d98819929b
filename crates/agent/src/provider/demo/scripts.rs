//! The scripts of the demo model. They use what the base template has: bash and python3.

use serde_json::json;

use super::words::{block, end, failed};
use super::{Step, Turn};

/// A script: the tools that it needs, and what it does in each step.
pub(super) struct Script {
    pub(super) tools: &'static [&'static str],
    pub(super) step: fn(&Turn<'_>) -> Step,
}

const RUN: &str = "sandbox_run_command";
const WRITE: &str = "sandbox_write_file";
const READ: &str = "sandbox_read_file";
const LIST: &str = "sandbox_list_directory";
const FIND: &str = "sandbox_find_files";
const GREP: &str = "sandbox_grep_files";
const SERVICE: &str = "sandbox_start_service";
const REPLACE: &str = "sandbox_find_replace";

/// In the order of the suggestions.
pub(super) static ALL: [Script; 6] = [
    Script { tools: &[WRITE, SERVICE], step: counter },
    Script { tools: &[FIND, WRITE, RUN], step: csv },
    Script { tools: &[WRITE, RUN, READ, REPLACE], step: tests },
    Script { tools: &[WRITE, READ, GREP, RUN], step: compare },
    Script { tools: &[WRITE, FIND, GREP, LIST, READ], step: notes },
    Script { tools: &[RUN, LIST], step: failure },
];

const PAGE: &str = include_str!("files/counter.html");
const ANALYSE: &str = include_str!("files/analyse.py.txt");
const PRICES: &str = include_str!("files/prices.py.txt");
const TEST_PRICES: &str = include_str!("files/test_prices.py.txt");
const TIMING: &str = include_str!("files/timing.py.txt");

fn counter(turn: &Turn<'_>) -> Step {
    match turn.results.len() {
        0 => Step::say("I write a page with a counter into a file of the sandbox.")
            .call(WRITE, json!({"path": "demo-counter/index.html", "content": PAGE})),
        _ if !turn.went_well() => failed(),
        1 => Step::say("Now I start a web server for it, as a service: it goes on running beside the conversation.")
            .call(
                SERVICE,
                json!({"name": "web", "command": "python3 -m http.server 8000", "port": 8000, "cwd": "demo-counter"}),
            ),
        _ => end(
            "The page runs: it is shown beside this conversation. Press its buttons. The file is `demo-counter/index.html`; \
                  change it in the files pane and reload the page to see the change.",
        ),
    }
}

fn csv(turn: &Turn<'_>) -> Step {
    match turn.results.len() {
        0 => Step::say("I look for a CSV file among your uploads.")
            .think("The person wants a CSV file analysed. Uploads are in user-uploads/, so I look there first.")
            .call(FIND, json!({"query": "user-uploads/.csv"})),
        1 => {
            let found = turn.output().lines().any(|path| path.contains("user-uploads/") && path.ends_with(".csv"));
            let text = match found {
                true => "There is one. I write a small program that counts and averages its columns.",
                false => {
                    "There is none, so I write a program that makes an example, and then counts and averages its columns."
                }
            };
            Step::say(text)
                .think("Python's module csv is enough, so nothing has to be installed. The report goes to artifacts/.")
                .call(WRITE, json!({"path": "demo-csv/analyse.py", "content": ANALYSE}))
        }
        2 if turn.went_well() => Step::say("I run it.").call(RUN, json!({"command": "python3 demo-csv/analyse.py"})),
        3 if turn.went_well() => end(&format!(
            "This is what the program found:\n\n{}\n\nThe report is in `artifacts/csv-report.md`. Upload a file of your own and ask \
             again to analyse it.",
            block(turn.output())
        )),
        _ => failed(),
    }
}

fn tests(turn: &Turn<'_>) -> Step {
    // Without compiled files: a change of the same size within a second would not be noticed.
    let run = json!({"command": "python3 -B -m unittest -v", "cwd": "demo-tests"});
    match turn.results.len() {
        0 => Step::say("I write a small module and tests for it.")
            .call(WRITE, json!({"path": "demo-tests/prices.py", "content": PRICES}))
            .call(WRITE, json!({"path": "demo-tests/test_prices.py", "content": TEST_PRICES})),
        1 if turn.went_well() => Step::say("I run the tests.").call(RUN, run),
        2 => Step::say("A test fails: a discount makes the price higher. I read the code.")
            .think("with_discount(200, 25) should be 150 but is 250. The sign in the formula is a likely cause.")
            .call(READ, json!({"path": "demo-tests/prices.py"})),
        3 if turn.went_well() => Step::say("The discount is added where it should be subtracted. I change that line.")
            .call(
                REPLACE,
                json!({
                    "path": "demo-tests/prices.py",
                    "find": "    return price + price * percent / 100",
                    "replace": "    return price - price * percent / 100",
                }),
            ),
        4 if turn.went_well() => Step::say("I run the tests again.").call(RUN, run),
        5 if turn.went_well() => {
            end("All tests pass now. The mistake was one sign: the discount was added to the price. The result \
                                      of the edit above shows the difference.")
        }
        _ => failed(),
    }
}

fn compare(turn: &Turn<'_>) -> Step {
    let files = [("loop", LOOP), ("recursive", RECURSIVE), ("cached", CACHED)];
    match turn.results.len() {
        0 => files.iter().fold(
            Step::say("I write three implementations of Fibonacci's numbers."),
            |step, (name, text)| {
                step.call(WRITE, json!({"path": format!("demo-compare/fib_{name}.py"), "content": text}))
            },
        ),
        1 if turn.went_well() => {
            let step = Step::say(
                "I read all three and search them for recursion, at the same time: calls that only read run side by side.",
            );
            let step = files
                .iter()
                .fold(step, |step, (name, _)| step.call(READ, json!({"path": format!("demo-compare/fib_{name}.py")})));
            step.call(GREP, json!({"pattern": "return fib\\(", "path": "demo-compare"}))
        }
        2 if turn.went_well() => {
            Step::say("Now I measure them.").call(RUN, json!({"command": TIMING, "cwd": "demo-compare"}))
        }
        3 if turn.went_well() => end(&format!(
            "Measured in your sandbox:\n\n{}\n\nThe recursive one computes the same numbers again and again, so its time grows with \
             the result. Keeping results makes it as fast as the loop, which needs no memory for them: I would use the loop.",
            block(turn.output())
        )),
        _ => failed(),
    }
}

const LOOP: &str = "def fib(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n";
const RECURSIVE: &str = "def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\n";
const CACHED: &str = "from functools import lru_cache\n\n\n@lru_cache(maxsize=None)\ndef fib(n):\n    if n < 2:\n        return n\n    \
                      return fib(n - 1) + fib(n - 2)\n";

fn notes(turn: &Turn<'_>) -> Step {
    match turn.results.len() {
        0 => Step::say("I make a small project to search in.")
            .call(WRITE, json!({"path": "demo-notes/src/shop.py", "content": SHOP}))
            .call(WRITE, json!({"path": "demo-notes/README.md", "content": README})),
        1 if turn.went_well() => {
            Step::say("I search the content of all files, look for a file by a part of its name, and list the folder.")
                .call(GREP, json!({"pattern": "TODO", "path": "demo-notes", "literal": true}))
                .call(FIND, json!({"query": "shop", "path": "demo-notes"}))
                .call(LIST, json!({"path": "demo-notes", "depth": 2}))
        }
        2 if turn.went_well() => Step::say("Most of them are in one file. I read it to see what they are about.")
            .call(READ, json!({"path": "demo-notes/src/shop.py"})),
        3 if turn.went_well() => end("There are three notes:\n\n\
                                      1. `src/shop.py`: prices need a currency.\n\
                                      2. `src/shop.py`: an empty basket should be refused.\n\
                                      3. `README.md`: how to install it is not written down.\n\n\
                                      The search skips what `.gitignore` names and binary files, and is quick in large projects."),
        _ => failed(),
    }
}

const SHOP: &str = "# TODO: prices need a currency\nPRICES = {\"tea\": 3, \"cake\": 4}\n\n\ndef total(basket):\n    \
                    # TODO: refuse an empty basket\n    return sum(PRICES[item] for item in basket)\n";
const README: &str = "# Shop\n\nAn example for searching.\n\nTODO: say how to install it.\n";

fn failure(turn: &Turn<'_>) -> Step {
    match turn.results.len() {
        0 => Step::say("I run a program that reads a file which does not exist.")
            .call(RUN, json!({"command": "python3 -c 'print(open(\"demo-settings.json\").read())'"})),
        1 => Step::say("It failed. I look whether the file is there.")
            .think("Exit code 1 and FileNotFoundError at the end of the output: the name may be wrong, or the folder.")
            .call(LIST, json!({"path": "."})),
        _ => end(
            "The command ended with **exit code 1**. Any code but 0 means that it failed, so the result is marked as an error.\n\n\
                  - **What happened**: the last line of the output says `FileNotFoundError`: Python could not open \
                  `demo-settings.json`. Errors usually stand at the end, after the way that led there.\n\
                  - **Why**: the list above shows that there is no such file in the working directory.\n\
                  - **What to do**: make the file, or give the program the right path.",
        ),
    }
}
