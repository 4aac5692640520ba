//! `portcullis serve` as a process of its own, on a data directory that outlives it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    clippy::unwrap_used,
    reason = "each test file uses a part of this, and a test that cannot be set up must stop at once"
)]

pub mod clock;

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

pub struct Served(Child);

impl Served {
    /// The command that serves, wherever there is room.
    pub fn command(data: &Path) -> Command {
        Self::command_at(data, 0)
    }

    /// The command that serves at one port.
    pub fn command_at(data: &Path, port: u16) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.args(["serve", "--secure-port", &port.to_string(), "--data-dir"]).arg(data);
        command.env("RUST_LOG", "error");
        command
    }

    /// Starts without waiting.
    pub fn spawn(mut command: Command) -> Self {
        Self(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Waits until it serves, and says where.
    pub fn address(&mut self) -> SocketAddr {
        let mut line = String::new();
        BufReader::new(self.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("Serving on https://");
        address.unwrap_or_else(|| panic!("it does not start: {line:?}")).parse().unwrap()
    }

    pub fn id(&self) -> String {
        self.0.id().to_string()
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Tells it to stop, and returns how it ended and what it has said, if that was kept.
    pub fn stop(mut self) -> (ExitStatus, String) {
        assert!(Command::new("kill").args(["-TERM", &self.id()]).status().unwrap().success());
        let mut said = String::new();
        if let Some(mut log) = self.0.stderr.take() {
            log.read_to_string(&mut said).unwrap();
        }
        (self.0.wait().unwrap(), said)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A number that looks random.
pub fn dice(seed: u64) -> u64 {
    let mixed = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32
}
