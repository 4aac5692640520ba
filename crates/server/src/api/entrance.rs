//! Takes the requests of all connections. While the server starts it answers them itself, afterwards [`service`] does
//! (ET-5). A connection that was made before goes on.
//!
//! While the server starts, it tells whether it is alive and ready, and refuses everything else. Nobody is authenticated for
//! that: what it tells is the same for everybody, and names neither a reason nor an address that only some may know.
//!
//! Never answers from objects: [`service`] has them.

use std::sync::{Arc, OnceLock};

use futures_util::future::Either;
use http::header::EXPECT;
use http::request::Parts;
use http::{Method, Request, Response};
use hyper::body::Incoming;
use pki::UnverifiedCertificate;

use super::app::App;
use super::check::Check;
use super::health;
use super::route::Probe;
use super::server_metrics::Metrics;
use super::service;
use crate::authn::Peer;
use crate::http::activity::Sending;
use crate::http::body::{Body, Sent};
use crate::http::budget::{Budget, Charge};
use crate::http::limits::Limits;
use crate::http::listener::{Busy, Clients, Connection, Handler};
use crate::http::request_body;
use crate::http::status::{Answer, Status};

/// See the module.
pub(crate) struct Entrance {
    clients: Clients,
    /// The health checks while the server starts.
    checks: Vec<Check>,
    /// What it waits for: `etcd`.
    waits_for: &'static str,
    /// Answers, once the server has started.
    app: OnceLock<Arc<App>>,
}

impl Entrance {
    /// The entrance of a server that starts, and waits for this.
    pub(crate) fn new(
        limits: Limits,
        metrics: &Metrics,
        unfinished: impl Iterator<Item = Check>,
        waits_for: &'static str,
    ) -> Self {
        Self {
            clients: Clients::new(limits, &metrics.connections),
            checks: std::iter::once(Check::ping()).chain(unfinished).collect(),
            waits_for,
            app: OnceLock::new(),
        }
    }

    /// The bytes that are held for each caller, before and after the start.
    pub(crate) fn held(&self) -> &Arc<Budget> {
        &self.clients.held
    }

    /// From now on all requests are answered by this.
    pub(crate) fn open(&self, app: Arc<App>) {
        // There is one server, which starts once.
        let _ = self.app.set(app);
    }

    /// The answer while the server starts. Any method.
    fn not_ready(&self, head: &Parts) -> Answer {
        let path = head.uri.path();
        match Probe::of(path) {
            Some(probe) => {
                let query = head.uri.query().unwrap_or_default();
                health::answer(&self.checks, (probe, path, query), |_, _| {})
            }
            None => Status::try_again(format!(
                "the server is starting and waits for {}; /readyz tells when it is ready",
                self.waits_for
            ))
            .into_answer(),
        }
    }

    async fn refuse(
        &self,
        connection: &Arc<Connection<Peer>>,
        request: Request<Incoming>,
        mut charge: Charge,
    ) -> Response<Sent> {
        let busy = Busy::begin(connection);
        let (head, mut body) = request.into_parts();
        let mut answer = self.not_ready(&head);
        // HTTP/2 would send the body.
        if head.method == Method::HEAD {
            *answer.body_mut() = Body::default();
        }
        let expects = head.headers.contains_key(EXPECT);
        request_body::end(connection, &mut body, expects, &mut answer).await;
        charge.set(match answer.body() {
            Body::Whole(bytes) => bytes.len(),
            Body::Parts(_) | Body::Stream(_) => 0,
        });
        let sending = Sending::new(&connection.activity, Some(charge));
        answer.map(|body| body.sent(busy, sending))
    }
}

impl Handler for Entrance {
    type Peer = Peer;

    fn peer(&self, certificate: Option<UnverifiedCertificate>) -> Peer {
        Peer::new(certificate)
    }

    fn clients(&self) -> &Clients {
        &self.clients
    }

    // Not an async function: its future would hold its arguments a second time, for each request that is not answered yet.
    fn answer(
        self: Arc<Self>,
        connection: Arc<Connection<Peer>>,
        request: Request<Incoming>,
        charge: Charge,
    ) -> impl Future<Output = Response<Sent>> + Send {
        match self.app.get().map(Arc::clone) {
            Some(app) => Either::Left(service::serve(app, connection, request, charge)),
            None => Either::Right(Box::pin(async move { self.refuse(&connection, request, charge).await })),
        }
    }

    fn stop(&self) {
        if let Some(app) = self.app.get() {
            app.stop();
        }
    }
}
