//! A request that is to be passed on.

use crate::proxy::dial::Destination;

/// A request to pass on, and its destination.
pub(super) struct Errand {
    pub(super) to: Destination,
    pub(super) path_and_query: String,
    pub(super) kind: Kind,
}

/// The way in which a request and its answer are passed on.
pub(super) enum Kind {
    /// A text is read, which may go on. The name of the pod.
    Log { pod: String },
    /// The connection becomes another protocol, or nothing is done. `takes_all`: the kubelet knows all subprotocols of
    /// WebSocket (KA-84).
    Stream { takes_all: bool },
    /// As it is. The path under which the caller sees the other server.
    Proxy { prefix: String },
}
