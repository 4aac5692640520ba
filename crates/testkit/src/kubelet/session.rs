//! A command in a container: a real command of this machine, in a folder, with its input and its outputs as channels.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use tokio::sync::mpsc::{Receiver, Sender, channel};

/// How many pieces wait to be sent on.
const WAITING: usize = 4;
/// The size of a piece. In bytes.
const PIECE: usize = 16 * 1024;

/// Something that a command writes.
pub(super) enum Piece {
    Out(Vec<u8>),
    Err(Vec<u8>),
    /// It has ended: its status, as JSON of the stream protocol v4.
    Status(String),
}

/// A command that runs.
pub(super) struct Session {
    /// Its input, which ends when this is dropped.
    pub(super) input: Sender<Vec<u8>>,
    pub(super) output: Receiver<Piece>,
}

impl Session {
    /// Runs a command.
    pub(super) fn start(command: &[String], folder: &Path) -> Self {
        let (input, fed) = channel(WAITING);
        let (told, output) = channel(WAITING);
        let mut process = Command::new(command.first().map_or("true", String::as_str));
        process.args(command.iter().skip(1)).current_dir(folder);
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        thread::spawn(move || run(process, fed, &told));
        Self { input, output }
    }
}

fn run(mut command: Command, mut fed: Receiver<Vec<u8>>, told: &Sender<Piece>) {
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return tell(told, Piece::Status(failure("InternalError", &error.to_string(), ""))),
    };
    let mut stdin = child.stdin.take().expect("a pipe");
    thread::spawn(move || {
        while let Some(bytes) = fed.blocking_recv() {
            // A command that reads no more is no concern of whoever sends.
            if stdin.write_all(&bytes).is_err() {
                break;
            }
        }
        drop(stdin);
        // The rest is taken and thrown away, so that the sender goes on.
        while fed.blocking_recv().is_some() {}
    });
    let (stdout, stderr) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
    let of_errors = told.clone();
    let errors = thread::spawn(move || copy(stderr, &of_errors, Piece::Err));
    copy(stdout, told, Piece::Out);
    errors.join().expect("a thread that copies");
    let code = child.wait().expect("a child").code().unwrap_or(137);
    let status = match code {
        0 => "{\"metadata\":{},\"status\":\"Success\"}".to_owned(),
        code => failure(
            "NonZeroExitCode",
            &format!("command terminated with non-zero exit code: exit status {code}"),
            &format!("{{\"reason\":\"ExitCode\",\"message\":\"{code}\"}}"),
        ),
    };
    tell(told, Piece::Status(status));
}

fn failure(reason: &str, message: &str, cause: &str) -> String {
    format!(
        "{{\"metadata\":{{}},\"status\":\"Failure\",\"message\":{message:?},\"reason\":{reason:?},\
         \"details\":{{\"causes\":[{cause}]}}}}"
    )
}

fn copy(mut from: impl Read, told: &Sender<Piece>, piece: fn(Vec<u8>) -> Piece) {
    let mut buffer = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        tell(told, piece(buffer[..length].to_vec()));
    }
}

fn tell(told: &Sender<Piece>, piece: Piece) {
    // Nobody may be listening any more.
    let _ = told.blocking_send(piece);
}
