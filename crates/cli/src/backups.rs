//! Backups of the store of a running server.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use portcullis_server::registry::backend::Backend;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Handles SIGUSR1 from now on: it would kill the process otherwise.
///
/// # Errors
/// The handler cannot be installed.
pub(crate) fn signals() -> Result<Signal, Failure> {
    signal(SignalKind::user_defined1())
        .map_err(|error| Failure::unreachable(format_args!("cannot handle SIGUSR1: {error}")))
}

/// Writes a backup to a folder for each of the signals. Never returns; errors are logged.
pub(crate) async fn write_on(mut signals: Signal, backend: Arc<Backend>, folder: PathBuf) {
    while signals.recv().await.is_some() {
        let (backend, folder) = (Arc::clone(&backend), folder.clone());
        match tokio::task::spawn_blocking(move || write(&backend, &folder)).await {
            Ok(Ok(path)) => tracing::info!(path = %path.display(), "backup written"),
            Ok(Err(error)) => tracing::error!(error, "there is no backup"),
            Err(error) => tracing::error!(%error, "there is no backup"),
        }
    }
}

/// Writes a backup, which is renamed after its revision once it is complete.
fn write(backend: &Backend, folder: &Path) -> Result<PathBuf, String> {
    let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let unfinished = folder.join("unfinished");
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&unfinished, error)),
        _ => {}
    }
    let revision = backend.backup(&unfinished).map_err(|error| error.to_string())?;
    let path = folder.join(format!("objects-{}.redb", revision.0));
    let named = std::fs::rename(&unfinished, &path).and_then(|()| File::open(folder)?.sync_all());
    named.map_err(|error| failed(&path, error))?;
    Ok(path)
}
