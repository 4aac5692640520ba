//! The options of a fake kubelet: its behavior, and its faults.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use super::access::Holder;

/// A pod of the kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its containers.
    pub containers: Vec<String>,
}

/// How a kubelet behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address.
    pub ip: IpAddr,
    /// The port; 0 for one that is free.
    pub port: u16,
    /// Threads that serve.
    pub threads: usize,
    /// Whether HTTP/2 is offered.
    pub http2: bool,
    /// Whether requests are recorded from the start.
    pub log: bool,
    /// Who is authorized. `None`: whoever has a certificate of the client authority. Otherwise: holders of one of these
    /// bearer tokens, as far as their grants go (KA-25 to KA-39a, KA-54 to KA-58).
    pub grants: Option<BTreeMap<String, Holder>>,
    /// Gate `KubeletFineGrainedAuthz`.
    pub fine_grained: bool,
    /// `enableDebuggingHandlers`.
    pub debugging_handlers: bool,
    /// `enableSystemLogHandler`.
    pub system_log_handler: bool,
    /// `enableProfilingHandler`.
    pub profiling_handler: bool,
    /// `enableDebugFlagsHandler`.
    pub debug_flags_handler: bool,
    /// The pods that run here.
    pub pods: Vec<Pod>,
    /// After how many lines a followed log ends; `None`: never.
    pub follow_lines: Option<usize>,
    /// How many bytes of the pattern a log has that is not followed, instead of three lines.
    pub log_bytes: Option<u64>,
    /// The time between the lines of a followed log.
    pub follow_every: Duration,
    /// What an echoing stream sends at its end.
    pub trailer: Vec<u8>,
    /// The folder in which exec runs commands of this machine. Then exec and attach speak the protocols of kubectl, and port
    /// forwarding sends back what comes. `None`: they are plain streams of bytes.
    pub shell: Option<PathBuf>,
    /// How long it waits before each answer.
    pub delay: Duration,
    /// How it is broken.
    pub fault: Option<Fault>,
}

impl Default for Options {
    /// A kubelet with every handler on and one pod, `ns/p` with a container `c`.
    fn default() -> Self {
        Self {
            ip: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            threads: 2,
            http2: true,
            log: true,
            grants: None,
            fine_grained: true,
            debugging_handlers: true,
            system_log_handler: true,
            profiling_handler: true,
            debug_flags_handler: true,
            pods: vec![Pod { namespace: "ns".into(), name: "p".into(), containers: vec!["c".into()] }],
            follow_lines: None,
            log_bytes: None,
            follow_every: Duration::from_millis(10),
            trailer: Vec::new(),
            shell: None,
            delay: Duration::ZERO,
            fault: None,
        }
    }
}

/// What happens after a wrong answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The connection stays open; what comes on it is kept for [`super::FakeKubelet::strays`].
    KeepOpen,
    /// The connection is cut, without `close_notify`.
    Cut,
}

/// A wrong answer. Requests that it is not for get an empty 200.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Whether it is only for requests that ask for a change of protocol.
    pub upgrades_only: bool,
    /// All the bytes that are sent.
    pub answer: Vec<u8>,
    /// What happens after them.
    pub then: Then,
}

impl Fault {
    /// Answers every request with these bytes and cuts the connection.
    pub fn cut_after(answer: impl Into<Vec<u8>>) -> Self {
        Self { upgrades_only: false, answer: answer.into(), then: Then::Cut }
    }

    /// Answers a change of protocol with this code and these header lines (each with its line end) and an empty body,
    /// and keeps the connection open: `302` with a `Location` (NC-12), `403` (NC-13), `200`.
    pub fn refused_upgrade(code: u16, headers: &str) -> Self {
        let answer = format!("HTTP/1.1 {code} Refused\r\n{headers}Content-Length: 0\r\n\r\n");
        Self { upgrades_only: true, answer: answer.into(), then: Then::KeepOpen }
    }

    /// Changes to a protocol that the client did not ask for, on every request.
    pub fn unasked_upgrade(protocol: &str) -> Self {
        let answer =
            format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n");
        Self { upgrades_only: false, answer: answer.into(), then: Then::KeepOpen }
    }

    /// Announces 1000 bytes, sends ten, and cuts the connection.
    pub fn broken_body() -> Self {
        Self::cut_after(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n0123456789",
        )
    }

    /// Sends one whole chunk and a part of the next, and cuts the connection.
    pub fn broken_chunk() -> Self {
        Self::cut_after("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nff\r\nabc")
    }

    /// Sends half a head and cuts the connection.
    pub fn half_head() -> Self {
        Self::cut_after("HTTP/1.1 200 OK\r\nContent-Le")
    }

    /// Sends a head with one header of so many bytes.
    pub fn huge_head(bytes: usize) -> Self {
        Self::cut_after(format!(
            "HTTP/1.1 200 OK\r\nX-Huge: {}\r\nContent-Length: 0\r\n\r\n",
            "x".repeat(bytes)
        ))
    }

    /// Never answers.
    pub fn silence() -> Self {
        Self { upgrades_only: false, answer: Vec::new(), then: Then::KeepOpen }
    }
}
