//! The interface between a listener and the service behind it.

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use pki::UnverifiedCertificate;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::connection::Connection;
use crate::http::body::Sent;
use crate::http::limits::Limits;

/// Answers the requests that a [`Server`](super::Server) receives.
pub trait Handler: Send + Sync + 'static {
    /// Its data about the peer of a connection.
    type Peer: Send + Sync + 'static;

    /// The other end of a new connection, which showed this certificate, or none. Nothing is known of it but that it
    /// has the certificate's key.
    fn peer(&self, certificate: Option<UnverifiedCertificate>) -> Self::Peer;

    /// The limits of one client.
    fn limits(&self) -> &Limits;

    /// Connections that are open.
    fn connections(&self) -> &Gauge;

    /// Returns the counter of failed handshakes.
    fn handshake_failures(&self) -> &Counter;

    /// Returns the counter of connections that were closed for others.
    fn closed_for_others(&self) -> &Counter;

    /// Answers one request.
    fn answer(
        self: Arc<Self>,
        connection: Arc<Connection<Self::Peer>>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Sent>> + Send;

    /// Ends responses that would otherwise continue indefinitely. All others may finish.
    fn stop(&self) {}
}
