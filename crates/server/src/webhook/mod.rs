//! The webhook: answers the access reviews and admission reviews of a kube-apiserver, over the objects of its cluster
//! (BC-1 to BC-7), and rehearses decisions with its audit events.
//!
//! It changes nothing in the cluster, and allows nothing that it cannot decide: a review that cannot be read is refused, and
//! what is not known for certain is no opinion.

mod admit;
mod authorize;
mod cluster;
pub mod metrics;
mod parts;
mod shadow;
mod shadow_metrics;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, EXPECT};
use http::request::Parts as Head;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use pki::UnverifiedCertificate;

use self::metrics::Endpoint;
use crate::api::large_work::{LARGE, LargeWork};
use crate::authn::Peer;
use crate::http::account::Account;
use crate::http::activity::Sending;
use crate::http::body::{Body, Sent};
use crate::http::budget::Charge;
use crate::http::listener::{Busy, Clients, Connection, Handler, Listening, Server};
use crate::http::request_body;
use crate::http::status::{Answer, Status, json, json_bytes, page_not_found, text};

pub use self::cluster::{Cluster, Following};
pub use self::parts::{Parts, Webhook};

impl Handler for Webhook {
    type Peer = Peer;

    fn peer(&self, certificate: Option<UnverifiedCertificate>) -> Peer {
        Peer::new(certificate)
    }

    fn clients(&self) -> &Clients {
        &self.clients
    }

    fn answer(
        self: Arc<Self>,
        connection: Arc<Connection<Peer>>,
        request: Request<Incoming>,
        charge: Charge,
    ) -> impl Future<Output = Response<Sent>> + Send {
        answer(self, connection, request, charge)
    }
}

impl Webhook {
    /// Serves on an address while the result is polled. It is compiled here, and not again in each program that calls it.
    pub fn serve(server: Server<Self>) -> Listening {
        server.listen()
    }
}

async fn answer(
    webhook: Arc<Webhook>,
    connection: Arc<Connection<Peer>>,
    request: Request<Incoming>,
    mut charge: Charge,
) -> Response<Sent> {
    let started = Instant::now();
    let _busy = Busy::begin(&connection);
    let (head, mut body) = request.into_parts();
    let endpoint = Endpoint::of(head.uri.path());
    let mut answer = match webhook.respond(endpoint, &connection, &head, &mut body, &mut charge).await {
        Ok(answer) => answer,
        Err(status) => status.into_answer(),
    };
    webhook.parts.metrics.answered(endpoint, answer.status(), started.elapsed());
    if head.method == Method::HEAD {
        *answer.body_mut() = Body::default();
    }
    let expects = head.headers.contains_key(EXPECT);
    drop(head);
    request_body::end(&connection, &mut body, expects, &mut answer).await;
    answer.map(|body| body.sent((), Sending::new(&connection.activity, Some(charge))))
}

impl Webhook {
    async fn respond(
        &self,
        endpoint: Option<Endpoint>,
        connection: &Connection<Peer>,
        head: &Head,
        body: &mut Incoming,
        charge: &mut Charge,
    ) -> Result<Answer, Status> {
        let Some(endpoint) = endpoint else { return Ok(page_not_found()) };
        let wanted = if endpoint.is_posted() { Method::POST } else { Method::GET };
        if head.method != wanted && !(head.method == Method::HEAD && wanted == Method::GET) {
            return Err(Status::method_not_allowed());
        }
        // Kubelets and load balancers have no credentials.
        match endpoint {
            Endpoint::Healthz | Endpoint::Livez => return Ok(text(StatusCode::OK, "ok")),
            Endpoint::Readyz => return Ok(self.readiness()),
            _ => {}
        }
        let account = self.authenticate(connection, head)?;
        if !charge.transfer(account) {
            return Err(Status::holds_too_much(self.parts.limits.held_bytes));
        }
        match endpoint {
            Endpoint::Metrics => Ok(self.metrics()),
            Endpoint::Configz => Ok(json(StatusCode::OK, &self.parts.configz)),
            Endpoint::Audit => self.shadow.take(head, body, account, &self.parts.limits).await,
            Endpoint::Shadow => {
                // Thousands of rows take some time.
                let report = async { self.shadow.report(&head.uri) };
                let (answer, size) = self.large.run(account, LARGE, report).await?;
                charge.set(size);
                Ok(answer)
            }
            _ => {
                let body = request_body::read(head, body, &self.parts.limits, charge).await?;
                self.review(endpoint, account, body).await
            }
        }
    }

    /// Only callers who prove who they are are answered (BC-2), before anything of their body is read.
    fn authenticate(&self, connection: &Connection<Peer>, head: &Head) -> Result<Account, Status> {
        let callers = &self.parts.callers;
        let caller = callers
            .identify(&connection.peer, &head.headers, connection.remote, SystemTime::now())
            .map_err(|error| {
                tracing::debug!(%error, remote = ?connection.remote, "a caller is refused");
                self.parts.metrics.refused_callers.inc();
                Status::unauthorized()
            })?;
        let account = Account::of_user(caller.user());
        connection.place.identify(caller.user(), account);
        Ok(account)
    }

    async fn review(&self, endpoint: Endpoint, account: Account, body: Bytes) -> Result<Answer, Status> {
        let answered = match endpoint {
            Endpoint::Admit => admit::answer(self, account, &body).await,
            _ => authorize::answer(self, account, &body).await,
        };
        answered.map(|bytes| json_bytes(StatusCode::OK, bytes)).inspect_err(|status| {
            tracing::debug!(endpoint = endpoint.name(), error = status.message(), "a review cannot be read");
            self.parts.metrics.unreadable(endpoint);
        })
    }

    /// Ready: every needed kind was listed, and heard of since (BC-21). The answer says which is not.
    fn readiness(&self) -> Answer {
        match self.unready() {
            None => text(StatusCode::OK, "ok"),
            Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        }
    }

    fn metrics(&self) -> Answer {
        let mut answer = match self.parts.metrics.render(self.parts.cluster.standings(), self.shadow.counts())
        {
            Ok(body) => text(StatusCode::OK, body),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "cannot write the metrics\n"),
        };
        let media = HeaderValue::from_static(portcullis_client::metrics::CONTENT_TYPE);
        answer.headers_mut().insert(CONTENT_TYPE, media);
        answer
    }

    /// Does work on a body of this size; large ones in turn, and not on the threads of other requests.
    async fn in_turn<T>(&self, account: Account, body: &Bytes, work: impl FnOnce() -> T) -> T {
        if LargeWork::is_large(body.len()) {
            return self.large.run(account, body.len(), async { work() }).await;
        }
        work()
    }
}
