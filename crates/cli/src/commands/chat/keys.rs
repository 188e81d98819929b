//! Reads a line from the terminal.

use std::io::{self, Write};

use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
};

use super::line::{Edit, Key, Line};
use crate::signals::Signals;
use crate::terminal;

/// What a person typed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D on an empty line, or the terminal is gone.
    End,
}

/// Reads a line after a prompt. With `hidden`, nothing of it is shown.
pub(crate) async fn read_line(
    prompt: &str,
    history: &[String],
    hidden: bool,
    signals: &mut Signals,
) -> io::Result<Typed> {
    let (prompt, history) = (prompt.to_owned(), history.to_vec());
    let reading = tokio::task::spawn_blocking(move || edit(&prompt, &history, hidden));
    tokio::select! {
        typed = reading => typed.map_err(io::Error::other)?,
        // The thread that reads keys goes on until the process ends; the terminal is put back here.
        _ = signals.recv() => {
            restore();
            Ok(Typed::End)
        }
    }
}

/// Single keys reach us while this exists.
struct Keys;

impl Keys {
    fn enter() -> io::Result<Self> {
        crossterm::terminal::enable_raw_mode()?;
        let keys = Self;
        crossterm::execute!(io::stderr(), EnableBracketedPaste)?;
        Ok(keys)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        restore();
    }
}

/// Errors are ignored: the terminal may be gone.
fn restore() {
    let _ = crossterm::execute!(io::stderr(), DisableBracketedPaste);
    let _ = crossterm::terminal::disable_raw_mode();
}

fn edit(prompt: &str, history: &[String], hidden: bool) -> io::Result<Typed> {
    let keys = Keys::enter()?;
    let mut line = Line::default();
    draw(prompt, &line, hidden)?;
    let typed = loop {
        let key = match crossterm::event::read() {
            Ok(Event::Key(event)) => translate(event),
            Ok(Event::Paste(text)) => Some(Key::Paste(text)),
            Ok(Event::Resize(..)) => None,
            Ok(_) => continue,
            Err(_) => break Typed::End,
        };
        if let Some(key) = key {
            match line.press(key, history) {
                Edit::More => {}
                Edit::Done(text) => break Typed::Line(text),
                Edit::Interrupt => break Typed::Interrupt,
                Edit::End => break Typed::End,
            }
        }
        draw(prompt, &line, hidden)?;
    };
    drop(keys);
    writeln!(io::stderr())?;
    Ok(typed)
}

/// Writes the line anew: to its beginning, erase it, the text, and the cursor to its place.
fn draw(prompt: &str, line: &Line, hidden: bool) -> io::Result<()> {
    let columns = usize::from(terminal::size().cols);
    let before = prompt.chars().count();
    let (text, column) = if hidden { (String::new(), 0) } else { line.view(columns.saturating_sub(before)) };
    let mut err = io::stderr().lock();
    write!(err, "\r\u{1b}[K{prompt}{text}\r")?;
    if before + column > 0 {
        write!(err, "\u{1b}[{}C", before + column)?;
    }
    err.flush()
}

fn translate(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    Some(match event.code {
        KeyCode::Char('c') if control => Key::Interrupt,
        KeyCode::Char('d') if control => Key::EndOfInput,
        KeyCode::Char('a') if control => Key::Home,
        KeyCode::Char('e') if control => Key::End,
        KeyCode::Char('b') if control => Key::Left,
        KeyCode::Char('f') if control => Key::Right,
        KeyCode::Char('p') if control => Key::Up,
        KeyCode::Char('n') if control => Key::Down,
        KeyCode::Char('h') if control => Key::Backspace,
        KeyCode::Char('j' | 'm') if control => Key::Enter,
        KeyCode::Char('u') if control => Key::Cut,
        KeyCode::Char('w') if control => Key::CutWord,
        KeyCode::Char(_) if control => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Tab => Key::Char('\t'),
        KeyCode::Enter => Key::Enter,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Delete => Key::Delete,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        _ => return None,
    })
}
