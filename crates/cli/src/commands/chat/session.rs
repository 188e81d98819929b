//! A conversation on a terminal.

use cabana_client::Client;
use cabana_types::turn::TurnState;
use cabana_types::wire::CancelRequest;

use super::follow::{Ended, Follower, Mode};
use super::keys::{self, Typed};
use super::start::Settings;
use super::{console_url, go_on};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, clean};
use crate::signals::Signals;

const HELP: &str = "\
/model [NAME]   show the models, or use this one from now on
/new            begin another chat
/stop           stop the turn that runs
/open           print the chat's address in the console
/quit           leave; Ctrl-D does too
Ctrl-C stops a running turn.";

/// What a person entered.
#[derive(Debug, PartialEq, Eq)]
enum Input {
    Nothing,
    Message(String),
    Help,
    Model(Option<String>),
    New,
    Stop,
    Open,
    Quit,
    Unknown(String),
}

pub(super) async fn run(
    client: &Client,
    mut settings: Settings,
    mode: Mode,
    out: &Output,
    signals: &mut Signals,
) -> Outcome {
    let mut history: Vec<String> = Vec::new();
    if let Some(id) = settings.chat.clone() {
        let chat = client.chat(&id).await?;
        out.say(&format!("{}  {}", chat.id, clean(&chat.title)));
        if let Some(turn) = &chat.turn_id {
            let ended = Follower::new(client, out, signals, mode).attach(&chat, turn).await?;
            said(&ended, out);
        }
    }
    out.note("/help lists what you can enter beside messages");
    loop {
        let typed = keys::read_line("> ", &history, false, signals).await?;
        let Typed::Line(line) = typed else { break };
        if !line.trim().is_empty() && history.last() != Some(&line) {
            history.push(line.clone());
        }
        let input = parse(&line);
        if input == Input::Quit {
            break;
        }
        if let Err(failure) = act(input, client, &mut settings, mode, out, signals).await {
            if failure.is_silent() || failure.exit_code() > 128 {
                return Err(failure);
            }
            out.failure(&failure);
        }
    }
    if let Some(id) = &settings.chat {
        go_on(id, out);
    }
    Ok(0)
}

async fn act(
    input: Input,
    client: &Client,
    settings: &mut Settings,
    mode: Mode,
    out: &Output,
    signals: &mut Signals,
) -> Result<(), Failure> {
    match (input, &settings.chat) {
        (Input::Nothing | Input::Quit, _) => {}
        (Input::Message(text), _) => {
            let begun = settings.send(client, &text, out).await?;
            let mut follower = Follower::new(client, out, signals, mode);
            let ended = follower.follow(&begun.chat, &begun.turn.id, begun.after).await?;
            said(&ended, out);
        }
        (Input::Help, _) => out.say(HELP),
        (Input::Model(None), _) => {
            for model in client.models().await?.models {
                let used = match &settings.model {
                    Some(name) => *name == model.id,
                    None => model.default,
                };
                out.say(&format!("{} {}", if used { "*" } else { " " }, clean(&model.id)));
            }
        }
        (Input::Model(Some(name)), _) => {
            let models = client.models().await?.models;
            if !models.iter().any(|model| model.id == name) {
                return Err(Failure::user_error(format!("there is no model {name}")).hint("/model lists the models"));
            }
            out.say(&format!("{} from the next message on", clean(&name)));
            settings.model = Some(name);
        }
        (Input::New, _) => {
            settings.chat = None;
            out.say("the next message begins another chat");
        }
        (Input::Stop, Some(id)) => {
            client.cancel_turn(id, &CancelRequest::default()).await?;
            out.say("stopped");
        }
        (Input::Open, Some(id)) => out.line(&console_url(client, id))?,
        (Input::Stop | Input::Open, None) => out.say("there is no chat yet"),
        (Input::Unknown(word), _) => out.say(&format!("there is no {}; /help lists what there is", clean(&word))),
    }
    Ok(())
}

/// Says how a turn ended, if it did not end well.
fn said(ended: &Ended, out: &Output) {
    if ended.status != TurnState::Complete {
        let reason = ended.reason.as_deref().map(|reason| format!(": {}", clean(reason))).unwrap_or_default();
        out.say(&format!("(the turn is {}{reason})", ended.status));
    }
}

fn parse(line: &str) -> Input {
    let text = line.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
    match word {
        "" => Input::Nothing,
        "/help" | "/?" => Input::Help,
        "/model" | "/models" => Input::Model(rest),
        "/new" => Input::New,
        "/stop" => Input::Stop,
        "/open" => Input::Open,
        "/quit" | "/exit" | "/q" => Input::Quit,
        // A path is no command.
        word if word.strip_prefix('/').is_some_and(|name| name.bytes().all(|b| b.is_ascii_lowercase())) => {
            Input::Unknown(word.to_owned())
        }
        _ => Input::Message(line.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_messages() {
        for (line, expected) in [
            ("  ", Input::Nothing),
            ("hello /help", Input::Message("hello /help".into())),
            ("/help", Input::Help),
            (" /model  demo/demo ", Input::Model(Some("demo/demo".into()))),
            ("/model", Input::Model(None)),
            ("/quit", Input::Quit),
            ("/what is", Input::Unknown("/what".into())),
            ("/etc/passwd has what?", Input::Message("/etc/passwd has what?".into())),
            ("a\nb", Input::Message("a\nb".into())),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}
