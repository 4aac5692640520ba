//! An engine from state files.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use portcullis_policy::engine::{Builder, Engine, EngineConfig, EngineError};

use super::{StateError, Summary, load};

/// Which files, and how to decide over them.
#[derive(Clone, Debug)]
pub struct Source {
    /// Files and directories.
    pub paths: Vec<PathBuf>,
    /// What the engine is to do.
    pub config: EngineConfig,
    /// Threads that decode.
    pub threads: NonZeroUsize,
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The modes contradict each other.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Source {
    /// Builds an engine over the files as they are now, all of them or none.
    ///
    /// # Errors
    /// The first file or object that cannot be used.
    pub fn build(&self) -> Result<(Engine, Summary), SourceError> {
        let mut builder = Builder::new(self.config.clone())?;
        let summary =
            load(&self.paths, self.threads, &mut |object| builder.take(object).map_err(|e| e.to_string()))?;
        Ok((builder.finish(), summary))
    }
}
