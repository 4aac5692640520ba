//! The interface between a listener and the service behind it.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use pki::UnverifiedCertificate;

use super::clients::Clients;
use super::connection::Connection;
use super::table::http2_bytes;
use crate::http::activity::{OpenStream, Sending};
use crate::http::body::{Body, Sent};
use crate::http::budget::{Charge, head_size};

/// Answers the requests that a [`Server`](super::Server) receives.
pub trait Handler: Send + Sync + 'static {
    /// Its data about the peer of a connection.
    type Peer: Send + Sync + 'static;

    /// The other end of a new connection, which showed this certificate, or none. Nothing is known of it but that it
    /// has the certificate's key.
    fn peer(&self, certificate: Option<UnverifiedCertificate>) -> Self::Peer;

    /// The limits of its clients, and what is counted of them.
    fn clients(&self) -> &Clients;

    /// Answers one request, which is charged to the account of the connection.
    fn answer(
        self: Arc<Self>,
        connection: Arc<Connection<Self::Peer>>,
        request: Request<Incoming>,
        charge: Charge,
    ) -> impl Future<Output = Response<Sent>> + Send;

    /// Ends responses that would otherwise continue indefinitely. All others may finish.
    fn stop(&self) {}
}

/// Charges a request as soon as it was received, and answers it. One for which there is no room is not looked at.
pub(super) fn answer<H: Handler>(
    handler: &Arc<H>,
    connection: &Arc<Connection<H::Peer>>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Sent>, Infallible>> + Send + use<H> {
    let received = connection.activity.receive();
    let stream = connection.is_http2.then(|| {
        let (stream, most) = OpenStream::count(&connection.activity);
        match connection.place.is_known() {
            true => most.into_iter().for_each(|most| connection.place.streams(most)),
            false => connection.place.holds(http2_bytes(&handler.clients().limits, received)),
        }
        stream
    });
    let size = head_size(request.headers(), request.uri());
    // On the heap: a request that is not looked at must take as little as possible.
    let charge = handler.clients().held.charge(connection.place.charged(), size);
    let answering =
        charge.map(|charge| Box::pin(Arc::clone(handler).answer(Arc::clone(connection), request, charge)));
    let connection = Arc::clone(connection);
    async move {
        let is_stranger = || connection.is_http2 && !connection.place.is_known();
        // AN-22: one request of a stranger was answered. Those that were sent with it cost nothing more.
        let is_late = connection.activity.is_closing() && is_stranger();
        let answer = match answering.filter(|_| !is_late) {
            Some(answering) => answering.await,
            None => too_many().map(|body| body.sent((), Sending::new(&connection.activity, None))),
        };
        // AN-22: strangers get one request for each HTTP/2 connection.
        if is_stranger() {
            connection.activity.close();
        }
        Ok(match stream {
            Some(stream) => answer.map(|body| body.on(stream)),
            None => answer,
        })
    }
}

fn too_many() -> Response<Body> {
    let mut answer =
        Response::new(Body::from(Bytes::from_static(b"Too many requests, please try again later.\n")));
    *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}
