//! All contexts, oldest first.

use std::os::unix::fs::DirBuilderExt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::context::Context;
use crate::error::Error;
use crate::kernel::{PLACE, SCRIPTS};
use crate::language::Language;

/// Where contexts work unless they are told otherwise.
const DIRECTORY: &str = "/home/user";
/// Maximum number of contexts.
const MOST: usize = 256;

/// The contexts of the sandbox.
#[derive(Debug)]
pub(crate) struct Contexts {
    list: Mutex<Vec<Entry>>,
    directory: String,
}

#[derive(Debug, Clone)]
struct Entry {
    context: Arc<Context>,
    /// Whether cells that name only its language run in it.
    default: bool,
}

impl Contexts {
    /// The contexts of a new sandbox. The Python kernel runs; that of JavaScript starts when it is needed.
    pub(crate) async fn open() -> Result<Self, Error> {
        // What an earlier process has left: its kernels end by themselves.
        match std::fs::remove_dir_all(PLACE) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(Error::Start(error)),
            _ => {}
        }
        std::fs::DirBuilder::new().mode(0o700).create(PLACE).map_err(Error::Start)?;
        for (name, text) in SCRIPTS {
            std::fs::write(std::path::Path::new(PLACE).join(name), text).map_err(Error::Start)?;
        }
        let directory = if std::path::Path::new(DIRECTORY).is_dir() { DIRECTORY } else { "/" };
        let contexts = Self { list: Mutex::default(), directory: directory.to_owned() };
        for name in ["python", "javascript"] {
            if let Ok(language) = Language::parse(Some(name)) {
                contexts.default_of(language)?;
            }
        }
        let python = contexts.default_of(Language::parse(None)?)?;
        let mut held = python.hold().await;
        python.running(&mut held).await?;
        drop(held);
        Ok(contexts)
    }

    /// The context in which a cell runs.
    pub(crate) fn of_cell(&self, id: Option<&str>, language: Option<&str>) -> Result<Arc<Context>, Error> {
        match id {
            Some(id) => self.get(id),
            None => self.default_of(Language::parse(language)?),
        }
    }

    pub(crate) fn get(&self, id: &str) -> Result<Arc<Context>, Error> {
        let list = self.lock();
        let found = list.iter().find(|entry| entry.context.id == id);
        found.map(|entry| Arc::clone(&entry.context)).ok_or_else(|| Error::NoContext(id.chars().take(64).collect()))
    }

    pub(crate) fn list(&self) -> Vec<Arc<Context>> {
        self.lock().iter().map(|entry| Arc::clone(&entry.context)).collect()
    }

    /// A new context, whose kernel runs.
    pub(crate) async fn create(&self, language: Option<&str>, directory: Option<&str>) -> Result<Arc<Context>, Error> {
        let language = Language::parse(language)?;
        let directory = directory.filter(|text| !text.is_empty()).unwrap_or(&self.directory).to_owned();
        let context = self.add(language, directory, false)?;
        let mut held = context.hold().await;
        let started = context.running(&mut held).await.map(drop);
        drop(held);
        match started {
            Ok(()) => Ok(context),
            Err(error) => {
                self.lock().retain(|entry| entry.context.id != context.id);
                Err(error)
            }
        }
    }

    pub(crate) async fn remove(&self, id: &str) -> Result<(), Error> {
        let context = self.get(id)?;
        self.lock().retain(|entry| entry.context.id != id);
        context.remove().await;
        Ok(())
    }

    /// The context of a language, made if there is none.
    fn default_of(&self, language: Language) -> Result<Arc<Context>, Error> {
        let found = self.lock().iter().find(|entry| entry.default && entry.context.language == language).cloned();
        match found {
            Some(entry) => Ok(entry.context),
            None => self.add(language, self.directory.clone(), true),
        }
    }

    fn add(&self, language: Language, directory: String, default: bool) -> Result<Arc<Context>, Error> {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(Error::Start)?;
        let context = Arc::new(Context::new(id.trim().to_owned(), language, directory));
        let mut list = self.lock();
        if list.len() >= MOST {
            return Err(Error::TooMany(MOST));
        }
        list.push(Entry { context: Arc::clone(&context), default });
        Ok(context)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
