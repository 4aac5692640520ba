//! Limits on the time and resources that clients can use.

use std::time::Duration;

/// Limits on the time and resources that clients can use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of connections of all clients. For a further one, the client that has most loses its oldest.
    pub connections: usize,
    /// The maximum size of what connections hold of which no request was authenticated yet. For more, the address that
    /// holds most loses its oldest connection. In bytes.
    pub stranger_bytes: usize,
    /// The timeout of the TLS handshake.
    pub handshake: Duration,
    /// The timeout for receiving request headers, from when the server is ready for them.
    pub header_read: Duration,
    /// The timeout for receiving a request body.
    pub body_read: Duration,
    /// The timeout of a request, except for watches (`--request-timeout`).
    pub request: Duration,
    /// The maximum number of read-only requests of all clients that are worked on at a time; 0 for no limit
    /// (`--max-requests-inflight`).
    pub read_only_in_flight: usize,
    /// The maximum number of mutating requests that are worked on at a time; 0 for no limit
    /// (`--max-mutating-requests-inflight`).
    pub mutating_in_flight: usize,
    /// The maximum size of what one caller makes the server hold: requests that are not answered, and answers that are
    /// not read. In bytes.
    pub held_bytes: usize,
    /// The maximum number of watches of one user. One may be the user of a component on every node.
    pub watches: usize,
    /// The maximum number of logs, exec sessions, forwarded ports and proxied requests of one user that are open at a time.
    pub opened: usize,
    /// The same of all users.
    pub opened_by_all: usize,
    /// The time in which a client must read a part of a response.
    pub write: Duration,
    /// The idle timeout of a connection.
    pub idle: Duration,
    /// The time for requests in progress to finish during shutdown.
    pub shutdown: Duration,
    /// The interval between bookmarks of a watch that asked for them. As in kube-apiserver, which documents it as one
    /// minute.
    pub bookmarks: Duration,
    /// The maximum size of a request body. In bytes; as in kube-apiserver.
    pub body_bytes: usize,
    /// The maximum size of request headers. In bytes.
    ///
    /// DIVERGES: kube-apiserver takes 1 MiB. Here strangers share their memory, and no real token is that long.
    pub head_bytes: usize,
    /// The maximum number of concurrent streams of an HTTP/2 connection (`--http2-max-streams-per-connection`).
    pub streams: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            stranger_bytes: 16 * 1024 * 1024,
            handshake: Duration::from_secs(10),
            header_read: Duration::from_secs(32),
            body_read: Duration::from_secs(60),
            request: Duration::from_secs(60),
            read_only_in_flight: 400,
            mutating_in_flight: 200,
            held_bytes: 16 * 1024 * 1024,
            watches: 20_000,
            opened: 400,
            opened_by_all: 2000,
            write: Duration::from_secs(60),
            idle: Duration::from_secs(90),
            shutdown: Duration::from_secs(10),
            bookmarks: Duration::from_secs(60),
            body_bytes: 3 * 1024 * 1024,
            head_bytes: 64 * 1024,
            streams: 1000,
        }
    }
}
