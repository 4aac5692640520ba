//! Builds an engine from state files.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use policy::engine::{Builder, Engine, EngineConfig, EngineError};

use crate::certificate_requests::Pkcs10Reader;

use super::{StateError, Summary, load};

/// The state files, and the configuration of the engine.
#[derive(Clone, Debug)]
pub struct Source {
    /// The files and directories.
    pub paths: Vec<PathBuf>,
    /// The configuration of the engine.
    pub config: EngineConfig,
    /// The number of decoding threads.
    pub threads: NonZeroUsize,
}

/// The engine cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The modes contradict each other.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file is invalid.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Source {
    /// Builds an engine from the current files, all of them or none.
    ///
    /// # Errors
    /// The first invalid file or object.
    pub fn build(&self) -> Result<(Engine, Summary), SourceError> {
        let certificate_requests = Some(Arc::new(Pkcs10Reader) as Arc<_>);
        let mut builder = Builder::new(EngineConfig { certificate_requests, ..self.config.clone() })?;
        let summary =
            load(&self.paths, self.threads, &mut |object| builder.take(object).map_err(|e| e.to_string()))?;
        Ok((builder.finish(), summary))
    }
}
