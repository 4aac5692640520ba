//! A request that is to be passed on.

use crate::proxy::dial::Destination;

/// What is passed on, and where to.
pub(super) struct Errand {
    pub(super) to: Destination,
    pub(super) path_and_query: String,
    pub(super) kind: Kind,
}

/// How a request is passed on, and its answer back.
pub(super) enum Kind {
    /// A text is read, which may go on. The name of the pod.
    Log { pod: String },
    /// The connection becomes another protocol, or nothing is done. `takes_all`: the kubelet knows all subprotocols of
    /// WebSocket (KA-84).
    Stream { takes_all: bool },
    /// As it is. The path under which the caller sees the other server.
    Proxy { prefix: String },
}
