//! The listening socket: connections, TLS, timeouts and graceful shutdown.
//!
//! It knows nothing of what is asked or by whom: a [`Handler`] answers, and keeps what it wants to know of each
//! connection.

mod connection;
mod handler;
mod http1;
mod paced;
mod server;
mod table;
mod wire;

pub use self::connection::Connection;
pub(crate) use self::connection::{Busy, Tunnel};
pub use self::handler::Handler;
pub use self::server::Server;
