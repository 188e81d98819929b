//! Conversations of any form.

use cabana_types::tool::ToolImage;
use proptest::prelude::*;

use super::*;
use crate::model::{ModelCall, Said};

fn user(text: &str, images: usize) -> ModelMessage {
    let image = UserPart::Image(ToolImage { media_type: "image/png".into(), data: String::new() });
    let mut parts = vec![UserPart::Text(text.into())];
    parts.extend(std::iter::repeat_n(image, images));
    ModelMessage::User(parts)
}

fn said(text: &str, calls: usize) -> ModelMessage {
    let call = |n| ModelCall { id: format!("c{n}"), name: "sandbox_run_command".into(), arguments: "{}".into() };
    ModelMessage::Assistant(Said { text: text.into(), calls: (0..calls).map(call).collect(), raw: None })
}

fn results(output: &str, count: usize, images: usize) -> ModelMessage {
    let image = ToolImage { media_type: "image/png".into(), data: String::new() };
    let result = |n| CallResult {
        id: format!("c{n}"),
        name: "sandbox_run_command".into(),
        output: output.into(),
        is_error: false,
        images: vec![image.clone(); images],
    };
    ModelMessage::Results((0..count).map(result).collect())
}

/// Turns: what a person says, then steps with calls and results, then an answer.
fn conversation() -> impl Strategy<Value = Vec<ModelMessage>> {
    let step = (0..400usize, 1..4usize, 0..3000usize, 0..2usize);
    let turn = (0..800usize, 0..3usize, prop::collection::vec(step, 0..6), any::<bool>());
    (prop::collection::vec(turn, 1..5), any::<bool>()).prop_map(|(turns, open)| {
        let mut messages = Vec::new();
        for (said_chars, images, steps, _) in turns {
            messages.push(user(&"u".repeat(said_chars), images));
            for (chars, calls, output, images) in steps {
                messages.push(said(&"a".repeat(chars), calls));
                let path = if output % 2 == 0 { "all of it: /tmp/cabana/outputs/call_x.txt …]" } else { "" };
                messages.push(results(&format!("{}{path}", "o".repeat(output)), calls, images));
            }
            messages.push(said("done", 0));
        }
        if open {
            messages.pop();
        }
        messages
    })
}

/// Every call has its results right after it, and every result its call.
fn is_paired(messages: &[ModelMessage]) -> bool {
    messages.iter().enumerate().all(|(at, message)| {
        let next = messages.get(at + 1);
        match message {
            ModelMessage::Assistant(said) if !said.calls.is_empty() => {
                matches!(next, Some(ModelMessage::Results(results)) if results.len() == said.calls.len())
            }
            _ => !matches!(next, Some(ModelMessage::Results(_))),
        }
    })
}

fn last_user(messages: &[ModelMessage]) -> Option<String> {
    messages.iter().rev().find_map(|message| match message {
        ModelMessage::User(parts) => parts.iter().find_map(|part| match part {
            UserPart::Text(text) if !text.starts_with('[') => Some(text.clone()),
            _ => None,
        }),
        _ => None,
    })
}

proptest! {
    #[test]
    fn what_stays_is_a_conversation(messages in conversation(), fixed in 0..500u64, window in 0..12_000u64) {
        let budget = (window / 4 * 3).saturating_sub(fixed);
        let fitted = fit(messages.clone(), fixed, window);
        match &fitted {
            Fit::Fits(kept) => {
                prop_assert!(total(kept) <= budget);
                prop_assert!(is_paired(kept));
                prop_assert_eq!((kept.len(), last_user(kept)), (messages.len(), last_user(&messages)));
                prop_assert_eq!(fit(kept.clone(), fixed, window), fitted);
            }
            Fit::Summarise { messages: range, conversation } => {
                prop_assert!(range.start < range.end && range.end <= messages.len());
                prop_assert!(total(&conversation[range.clone()]) > (budget / 4).min(2000));
                let short = summarised(conversation.clone(), range.clone(), "so it was");
                prop_assert!(is_paired(&short));
                prop_assert_eq!(last_user(&short), last_user(&messages));
                prop_assert!(total(&short) < total(&messages) || budget < 100);
                prop_assert_eq!(fit(conversation.clone(), fixed, window), fitted);
            }
            Fit::TooLong(kept) => {
                prop_assert!(total(kept) > budget && is_paired(kept));
                prop_assert_eq!(fit(kept.clone(), fixed, window), fitted);
            }
        }
    }

    /// Summaries come to an end: each leaves a shorter conversation.
    #[test]
    fn summaries_end(messages in conversation(), window in 400..12_000u64) {
        let mut messages = messages;
        for _ in 0..40 {
            match fit(messages, 0, window) {
                Fit::Fits(_) | Fit::TooLong(_) => return Ok(()),
                Fit::Summarise { messages: range, conversation } => messages = summarised(conversation, range, "so it was"),
            }
        }
        prop_assert!(false, "it goes on for ever");
    }
}

#[test]
fn images_go_first_and_then_outputs() {
    let mut messages = vec![user("a", 1), user("b", 1), user("c", 1)];
    let Fit::Fits(kept) = fit(messages.clone(), 0, 5000) else { panic!("it fits") };
    assert_eq!((&kept[1..], message_tokens(&kept[0]) < 30), (&messages[1..], true));
    assert_eq!(fit(messages.clone(), 0, 10_000), Fit::Fits(messages.clone()));
    messages.clear();
    let named =
        format!("{}\n[… 5 lines, 9 bytes left out; all of it: /tmp/cabana/outputs/call_x.txt …]", "x".repeat(4000));
    for step in 0..12 {
        messages.push(said("", 1));
        messages.push(results(if step == 0 { &named } else { &named[..4000] }, 1, 0));
    }
    let Fit::Fits(kept) = fit(messages.clone(), 0, 14_000) else { panic!("it fits") };
    let output = |at: usize| match &kept[at] {
        ModelMessage::Results(results) => results[0].output.clone(),
        _ => String::new(),
    };
    assert_eq!(
        output(1),
        "[the output of sandbox_run_command is left out here; all of it: /tmp/cabana/outputs/call_x.txt]"
    );
    assert_eq!(output(3), "[the output of sandbox_run_command is left out here; call the tool again if you need it]");
    assert_eq!(&kept[4..], &messages[4..]);
}

#[test]
fn summaries_are_asked_for_and_put_in() {
    let messages =
        vec![user("first", 1), said("x", 1), results(&"o".repeat(9000), 1, 0), said("done", 0), user("second", 0)];
    let Fit::Summarise { messages: range, conversation } = fit(messages.clone(), 1000, 3000) else {
        panic!("too long")
    };
    assert_eq!(range, 0..3);
    let request = summary_request("m", &conversation[range.clone()], 3000);
    assert!(request.tools.is_empty() && request_tokens(&request) < 2200, "{}", request_tokens(&request));
    assert!(matches!(&request.messages[..], [ModelMessage::User(parts)] if matches!(&parts[..], [UserPart::Text(text)]
        if text.contains("PERSON:\nfirst\n[an image]") && text.contains("CALL sandbox_run_command {}") && text.contains("\n[…]\n"))));
    let short = summarised(conversation, range, " So it was. ");
    let summary = "[Summary of the earlier conversation, which is left out]\nSo it was.";
    assert_eq!(short, [user(summary, 0), said("done", 0), user("second", 0)]);
    // The present turn alone is too long.
    let mut turn = vec![user("do it", 0)];
    for _ in 0..5 {
        turn.extend([said(&"x".repeat(4000), 1), results("o", 1, 0)]);
    }
    let Fit::Summarise { messages: range, conversation } = fit(turn.clone(), 0, 6000) else { panic!("too long") };
    assert_eq!(range, 1..7);
    let short = summarised(conversation, range, "S");
    let both =
        ModelMessage::User(vec![UserPart::Text("do it".into()), UserPart::Text(summary.replace("So it was.", "S"))]);
    assert_eq!((&short[0], &short[1..]), (&both, &turn[7..]));
    assert_eq!(with_summary("S", turn.split_off(1)).len(), 11);
    assert!(matches!(fit(vec![user(&"x".repeat(9000), 0)], 0, 1000), Fit::TooLong(_)));
}
