//! TPMs that answer what a test tells them to, whatever they are asked; and a recorder of what a real one answers.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::scratch::Scratch;

/// The largest command and response.
const MAX_BYTES: usize = 4096;

/// A Unix socket that speaks as a TPM does, to one client, once.
#[derive(Debug)]
pub struct FakeTpm {
    scratch: Scratch,
    recorded: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl FakeTpm {
    /// Gives these answers, one for each command, and closes the connection with the last.
    pub fn answering(answers: Vec<Vec<u8>>) -> Self {
        let mut answers = answers.into_iter();
        Self::with(move |_| answers.next().map(|answer| (answer, answers.len() > 0)))
    }

    /// Takes commands and never answers.
    pub fn silent() -> Self {
        Self::with(|_| Some((Vec::new(), true)))
    }

    /// Passes commands to a software TPM, and keeps its answers.
    ///
    /// # Panics
    /// There is no software TPM at the socket.
    pub fn recording(socket: &Path) -> Self {
        let mut tpm = UnixStream::connect(socket).expect("a software TPM");
        Self::with(move |command| {
            tpm.write_all(command).ok()?;
            receive(&mut tpm).map(|answer| (answer, true))
        })
    }

    /// `answer` returns the answer to a command, and whether there will be others.
    fn with(mut answer: impl FnMut(&[u8]) -> Option<(Vec<u8>, bool)> + Send + 'static) -> Self {
        let scratch = Scratch::new();
        let listener = UnixListener::bind(scratch.path().join("tpm")).expect("a socket");
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let answers = Arc::clone(&recorded);
        thread::spawn(move || {
            let Ok((mut client, _)) = listener.accept() else { return };
            while let Some(command) = receive(&mut client) {
                let Some((bytes, has_more)) = answer(&command) else { return };
                answers.lock().expect("no panic").push(bytes.clone());
                if client.write_all(&bytes).is_err() || !has_more {
                    return;
                }
            }
        });
        Self { scratch, recorded }
    }

    /// The connection string of the socket.
    pub fn connection(&self) -> String {
        format!("unix:{}", self.scratch.path().join("tpm").display())
    }

    /// The answers that were given.
    ///
    /// # Panics
    /// The thread that answers has panicked.
    pub fn recorded(&self) -> Vec<Vec<u8>> {
        self.recorded.lock().expect("no panic").clone()
    }
}

/// A command or a response comes in one piece.
fn receive(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut buffer = vec![0; MAX_BYTES];
    let read = stream.read(&mut buffer).ok()?;
    buffer.truncate(read);
    (read > 0).then_some(buffer)
}
