//! The listening socket: connections, TLS, timeouts and graceful shutdown.
//!
//! It knows nothing of what is asked or by whom: a [`Handler`] answers, and keeps what it wants to know of each
//! connection.

mod clients;
mod connection;
mod handler;
mod http1;
mod paced;
mod server;
mod table;
mod tunnel;
mod wire;

pub use self::clients::{Clients, ConnectionMetrics};
pub(crate) use self::connection::Busy;
pub use self::connection::Connection;
pub use self::handler::Handler;
pub use self::server::{Listening, Server};
pub(crate) use self::tunnel::{Carried, End, Tunnel};
