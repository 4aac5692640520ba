//! Connections to other servers, one for each request: to addresses that were checked, within a time.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use pki::tls::ClientConfig;
use portcullis_client::connect::describe;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::addresses::{AddressError, Addresses};
use crate::http::account::Account;
use crate::http::passed_body::PassedBody;

/// The size of the read buffer for an answer, and the maximum size of its headers, in bytes.
const READ_BUFFER: usize = 32 * 1024;
/// The size of the socket's receive buffer, in bytes.
const SOCKET_BUFFER: u32 = 256 * 1024;

/// The destination of a request.
pub(crate) struct Destination {
    /// An IP address or a name, as the certificate must have it.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// None for a server without TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

impl Destination {
    /// Host and port as in a URL.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// The server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// It is not connected to.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// No connection could be made.
    #[error("dial tcp {address}: {cause}")]
    Tcp { address: SocketAddr, cause: std::io::Error },
    /// TLS failed.
    #[error("tls: {0}")]
    Tls(String),
    /// There was no connection in time.
    #[error("no connection in {0:?}")]
    Late(Duration),
    /// It broke the connection off, or its answer is not HTTP.
    #[error("{}", describe(.0))]
    Http(hyper::Error),
}

impl DialError {
    /// The error of HTTP, if it is one.
    pub(crate) fn http(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Http(error) => Some(error),
            _ => None,
        }
    }
}

/// A connection for one request.
pub(crate) struct Line(http1::SendRequest<PassedBody>);

/// Connects. What that holds is charged to the account.
///
/// # Errors
/// See [`DialError`].
pub(crate) async fn connect(
    addresses: &Addresses,
    (to, account): (&Destination, Account),
    limit: Duration,
) -> Result<Line, DialError> {
    timeout(limit, reach(addresses, to, account)).await.unwrap_or(Err(DialError::Late(limit)))
}

async fn reach(addresses: &Addresses, to: &Destination, account: Account) -> Result<Line, DialError> {
    let tcp = first(&addresses.of(&to.host, account).await?, to.port).await?;
    let Some(config) = &to.tls else { return speak(tcp).await };
    let name = to.host.clone().try_into().map_err(|_| DialError::Tls(format!("{:?} is no name", to.host)))?;
    let tls = TlsConnector::from(Arc::clone(config)).connect(name, tcp).await;
    speak(tls.map_err(|error| DialError::Tls(describe(&error)))?).await
}

/// A connection to the first of these addresses that takes one.
async fn first(addresses: &[IpAddr], port: u16) -> Result<TcpStream, DialError> {
    let mut failed = DialError::Address(AddressError::None);
    for address in addresses {
        let address = SocketAddr::new(*address, port);
        match dial(address).await {
            Ok(stream) => return Ok(stream),
            Err(cause) => failed = DialError::Tcp { address, cause },
        }
    }
    Err(failed)
}

async fn dial(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_nodelay(true)?;
    socket.set_keepalive(true)?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    socket.connect(address).await
}

async fn speak(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<Line, DialError> {
    let handshake = http1::Builder::new().max_buf_size(READ_BUFFER).handshake(TokioIo::new(io)).await;
    let (sender, connection) = handshake.map_err(DialError::Http)?;
    // Ends when the answer was read or dropped.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to another server broke off");
        }
    });
    Ok(Line(sender))
}

impl Line {
    /// Sends a request, and waits for the head of the answer.
    ///
    /// # Errors
    /// The connection broke off, or the request's body did.
    pub(crate) async fn send(
        mut self,
        mut request: Request<PassedBody>,
    ) -> Result<Response<Incoming>, DialError> {
        // Nothing else is sent on this connection.
        if !request.headers().contains_key(http::header::CONNECTION) {
            request.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
        }
        self.0.send_request(request).await.map_err(DialError::Http)
    }
}
