//! The program under test as a process of its own: run to its end, or started and stopped with the test.
//!
//! Cargo tells only the tests of its own crate where the program is; they name it with [`program!`](crate::program!).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::scratch::Scratch;
use crate::tool::Finished;

/// The program that cargo built for the tests of this crate.
#[macro_export]
macro_rules! program {
    () => {
        $crate::program::Program::at(env!("CARGO_BIN_EXE_portcullis"))
    };
}

/// Where the program under test is.
#[derive(Clone, Copy, Debug)]
pub struct Program(&'static str);

impl Program {
    /// The program in this file.
    pub const fn at(path: &'static str) -> Self {
        Self(path)
    }

    /// Its file.
    pub fn path(self) -> &'static Path {
        Path::new(self.0)
    }

    /// A command of the program with these arguments.
    pub fn command<S: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(self.0);
        command.args(arguments);
        command
    }

    /// Runs the program to its end without input.
    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = S>) -> Finished {
        Finished::of(&mut self.command(arguments))
    }

    /// `portcullis serve` with a data directory, on a port that is free.
    pub fn serve_command(self, data: &Path) -> Command {
        self.serve_command_at(data, 0)
    }

    /// `portcullis serve` with a data directory, on this port.
    pub fn serve_command_at(self, data: &Path, port: u16) -> Command {
        let mut command = self.command(["serve", "--secure-port", &port.to_string(), "--data-dir"]);
        command.arg(data);
        command
    }

    /// Starts `portcullis serve` with a data directory, and waits until it is ready.
    #[track_caller]
    pub fn serve(self, data: &Path) -> Running {
        Running::start(self.serve_command(data))
    }

    /// A value of PATH with the folder of the program in front, for scripts that call it by its name.
    pub fn search_path(self) -> OsString {
        let folder = self.path().parent().expect("a file lies in a folder").to_owned();
        let before = std::env::var_os("PATH").unwrap_or_default();
        std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&before)))
            .expect("the folder of the program has a plain name")
    }
}

/// A process that runs until it is stopped, killed or dropped. If the test fails, its log is shown.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Open as long as the process runs: a closed pipe would be an error in it.
    stdout: Option<BufReader<ChildStdout>>,
    address: Option<SocketAddr>,
    /// Holds what the process writes to standard error.
    folder: Scratch,
}

const LOG: &str = "stderr.log";

impl Running {
    /// Starts a command without waiting. Its standard error is kept as its log.
    #[track_caller]
    pub fn spawn(mut command: Command) -> Self {
        let folder = Scratch::new();
        let log = fs::File::create(folder.path().join(LOG)).expect("a log can be written");
        if !command.get_envs().any(|(name, _)| name == "RUST_LOG") {
            command.env("RUST_LOG", "info");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stdout, address: None, folder }
    }

    /// Starts a server, and waits until it is ready: it prints its URL in its first line then.
    ///
    /// # Panics
    /// It ends without having been ready.
    #[track_caller]
    pub fn start(command: Command) -> Self {
        Self::try_start(command).unwrap_or_else(|finished| panic!("it does not start: {finished:#?}"))
    }

    /// As [`Running::start`], for a server that may refuse to start.
    ///
    /// # Errors
    /// It ended without having been ready.
    #[track_caller]
    pub fn try_start(command: Command) -> Result<Self, Finished> {
        let mut running = Self::spawn(command);
        let line = running.line();
        match line.trim().rsplit_once("https://").and_then(|(_, address)| address.parse().ok()) {
            Some(address) => {
                running.address = Some(address);
                Ok(running)
            }
            None => Err(running.wait_with(line)),
        }
    }

    /// Where it serves.
    ///
    /// # Panics
    /// It was started without waiting for that.
    pub fn address(&self) -> SocketAddr {
        self.address.expect("it was started with `start`")
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("https://{}", self.address())
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().expect("a pipe").read_line(&mut line).expect("a line of text");
        line
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked").is_some()
    }

    /// The log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join(LOG)).expect("a log of text")
    }

    /// Kills it, so that it has no time to finish anything.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// Sends it a signal, such as `TERM`.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -{name} {}", self.id());
    }

    /// Tells it to stop, and waits for its end. `stderr` is its whole log.
    #[track_caller]
    pub fn stop(self) -> Finished {
        self.signal("TERM");
        self.wait()
    }

    /// Waits until it ends by itself. `stderr` is its whole log.
    #[track_caller]
    pub fn wait(self) -> Finished {
        self.wait_with(String::new())
    }

    #[track_caller]
    fn wait_with(mut self, mut printed: String) -> Finished {
        if let Some(mut stdout) = self.stdout.take() {
            std::io::Read::read_to_string(&mut stdout, &mut printed).expect("it prints text");
        }
        let status = self.child.wait().expect("it ends");
        let code = status.code().unwrap_or_else(|| panic!("{status}\n{}", self.log()));
        Finished { code, stdout: printed, stderr: self.log() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default();
            eprintln!("log of process {}:\n{log}", self.id());
        }
    }
}
