//! Calls etcd: connections to its members, deadlines, retries, and what its errors mean. Never decides what is read or
//! written.
//!
//! All calls share one HTTP/2 connection to a member, on which none waits for another (ET-24).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::{sleep, timeout_at};
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Streaming};
use tonic_prost::ProstCodec;

use super::certificates::{LiveTls, Tls, secured};
use super::layout::GroupResource;
use super::options::RequestObserver;
use super::wire::{
    CompactionRequest, CompactionResponse, LeaseGrantRequest, LeaseGrantResponse, RangeRequest,
    RangeResponse, StatusRequest, StatusResponse, TxnRequest, TxnResponse, WatchRequest, WatchResponse,
};
use crate::StoreError;

/// The longest answer that is read. In bytes.
const MOST_BYTES: usize = 1 << 30;
/// How long a connection may be silent before it is probed, and how long the answer to that may take.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(2);
/// How long one member has for a call that can be made again at another.
const ATTEMPT: Duration = Duration::from_secs(5);
/// The pause before a call is made again.
const PAUSE: Duration = Duration::from_millis(50);

/// Connections to the members of an etcd cluster. Calls go to one of them, and to the next after a failure.
pub(super) struct Client {
    /// By their addresses, as they were given.
    members: Vec<(String, Endpoint)>,
    tls: Arc<LiveTls>,
    channels: Mutex<Channels>,
    current: AtomicUsize,
    observer: Option<Arc<dyn RequestObserver>>,
}

/// Connections to all members, which were made with these certificates.
struct Channels {
    of: Vec<Channel>,
    tls: Arc<Tls>,
}

impl Channels {
    /// Prepares connections.
    fn new(members: &[(String, Endpoint)], tls: Arc<Tls>) -> Result<Self, StoreError> {
        let channel = |(server, endpoint): &(String, Endpoint)| match secured(endpoint.clone(), &tls) {
            Ok(endpoint) => Ok(endpoint.connect_lazy()),
            Err(error) => Err(invalid(server, &error)),
        };
        Ok(Self { of: members.iter().map(channel).collect::<Result<_, _>>()?, tls })
    }
}

/// What a request is about that is about no resource.
pub(super) const NO_RESOURCE: GroupResource = ("", "");

/// Why a call failed.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// No member can be reached, or none can answer now. The request had no effect.
    Unavailable(String),
    /// The request was sent, and its answer did not arrive: it may have had its effect or not.
    Unknown(String),
    /// The revision is compacted.
    Compacted,
    /// etcd has no room (its alarm NOSPACE).
    NoSpace(String),
    /// The request is larger than etcd takes (its `--max-request-bytes`).
    TooLarge(String),
    /// etcd refused the request: it is not valid, or not permitted.
    Refused(String),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable(why) => Self::Unavailable(format!("etcd cannot be reached: {why}")),
            Failure::Unknown(why) => Self::Unknown(format!("etcd has not answered: {why}")),
            Failure::NoSpace(why) => Self::NoSpace(why),
            Failure::TooLarge(why) => Self::TooLarge(why),
            Failure::Compacted => Self::Broken("etcd has compacted a revision that is needed".to_owned()),
            Failure::Refused(why) => Self::Broken(format!("etcd refuses the request: {why}")),
        }
    }
}

impl Failure {
    /// The meaning of an error status of etcd.
    fn of(status: &tonic::Status) -> Self {
        let why = format!("{} ({:?})", status.message(), status.code());
        match status.code() {
            Code::OutOfRange if status.message().contains("compacted") => Self::Compacted,
            Code::ResourceExhausted if status.message().contains("database space exceeded") => {
                Self::NoSpace(why)
            }
            Code::InvalidArgument if status.message().contains("request is too large") => Self::TooLarge(why),
            // From the library that reads requests, before etcd does.
            Code::ResourceExhausted if status.message().contains("larger than max") => Self::TooLarge(why),
            Code::InvalidArgument
            | Code::NotFound
            | Code::OutOfRange
            | Code::FailedPrecondition
            | Code::Unimplemented
            | Code::PermissionDenied
            | Code::Unauthenticated => Self::Refused(why),
            // Too many requests: etcd has not taken it in.
            Code::ResourceExhausted => Self::Unavailable(why),
            _ => Self::Unknown(why),
        }
    }
}

impl Client {
    /// Prepares connections, which are made when they are first used. Must be called in a runtime of tokio.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for an address or a certificate that cannot be used.
    pub(super) fn new(
        servers: &[String],
        tls: Arc<LiveTls>,
        observer: Option<Arc<dyn RequestObserver>>,
    ) -> Result<Self, StoreError> {
        let mut members = Vec::new();
        for server in servers {
            let endpoint = Endpoint::from_shared(server.clone())
                .map_err(|error| invalid(server, &error))?
                .connect_timeout(CONNECT)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE)
                .keep_alive_while_idle(true)
                .initial_stream_window_size(4 << 20)
                .initial_connection_window_size(16 << 20)
                .tcp_nodelay(true);
            members.push((server.clone(), endpoint));
        }
        if members.is_empty() {
            return Err(StoreError::Refused("no etcd server is named".to_owned()));
        }
        let channels = Channels::new(&members, tls.current())?;
        Ok(Self { members, tls, channels: Mutex::new(channels), current: AtomicUsize::new(0), observer })
    }

    /// The number and the address of the member that calls go to now, and a connection to it.
    fn member(&self) -> (usize, &str, Channel) {
        let at = self.current.load(Ordering::Relaxed) % self.members.len().max(1);
        let server = self.members.get(at).map_or("", |(server, _)| server);
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.tls.is_current(&channels.tls) {
            match Channels::new(&self.members, self.tls.current()) {
                Ok(new) => *channels = new,
                // They were tried before they were put in force.
                Err(error) => tracing::error!(%error, "the new certificates for etcd cannot be used"),
            }
        }
        match channels.of.get(at) {
            Some(channel) => (at, server, channel.clone()),
            // There is at least one: see `new`.
            None => (at, server, Endpoint::from_static("http://[::1]:1").connect_lazy()),
        }
    }

    /// Goes on to the next member, unless another call has done that.
    pub(super) fn leave(&self, failed: usize) {
        let next = failed.wrapping_add(1) % self.members.len().max(1);
        let _ = self.current.compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Makes one call at one member. An error comes with the number of the member.
    async fn once<Q, A>(
        &self,
        path: &'static str,
        request: Q,
        deadline: Instant,
    ) -> Result<A, (usize, Failure)>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let (member, server, channel) = self.member();
        let failed = |failure| (member, failure);
        let mut grpc = Grpc::new(channel).max_decoding_message_size(MOST_BYTES);
        match timeout_at(deadline.into(), grpc.ready()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                return Err(failed(Failure::Unavailable(format!("{server}: {}", chain(&error)))));
            }
            Err(_) => return Err(failed(Failure::Unavailable(format!("{server}: no connection in time")))),
        }
        let codec = ProstCodec::<Q, A>::default();
        let call = grpc.unary(tonic::Request::new(request), PathAndQuery::from_static(path), codec);
        match timeout_at(deadline.into(), call).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(failed(match Failure::of(&status) {
                // The connection was refused: nothing was sent.
                Failure::Unknown(_) if is_refused_connection(&status) => {
                    Failure::Unavailable(format!("{server}: {}", chain(&status)))
                }
                Failure::Unknown(why) => Failure::Unknown(format!("{server}: {why}")),
                failure => failure,
            })),
            Err(_) => Err(failed(Failure::Unknown(format!("{server}: no answer in time")))),
        }
    }

    /// Makes a call, and makes it again at the next member if it had no effect. A call that may be repeated is also made again
    /// when its outcome is unknown.
    async fn call<Q, A>(
        &self,
        (operation, resource): (&'static str, GroupResource),
        path: &'static str,
        request: Q,
        (deadline, may_repeat): (Instant, bool),
    ) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let began = Instant::now();
        let outcome = loop {
            let attempt = if may_repeat { deadline.min(Instant::now() + ATTEMPT) } else { deadline };
            match self.once(path, request.clone(), attempt).await {
                Ok(answer) => break Ok(answer),
                Err((member, failure)) => {
                    let again = match &failure {
                        Failure::Unavailable(_) => true,
                        Failure::Unknown(_) => may_repeat,
                        _ => false,
                    };
                    if matches!(failure, Failure::Unavailable(_) | Failure::Unknown(_)) {
                        self.leave(member);
                    }
                    if !again || Instant::now() + PAUSE >= deadline {
                        break Err(match failure {
                            // What may be repeated changes nothing that matters.
                            Failure::Unknown(why) if may_repeat => Failure::Unavailable(why),
                            failure => failure,
                        });
                    }
                    sleep(PAUSE).await;
                }
            }
        };
        if let Some(observer) = &self.observer {
            observer.request(operation, resource, began.elapsed(), outcome.is_ok());
        }
        outcome
    }

    pub(super) async fn range(
        &self,
        request: RangeRequest,
        resource: GroupResource,
        within: Duration,
    ) -> Result<RangeResponse, Failure> {
        let operation = if request.range_end.is_empty() { "get" } else { "list" };
        let until = (Instant::now() + within, true);
        self.call((operation, resource), "/etcdserverpb.KV/Range", request, until).await
    }

    /// A transaction is sent once, because nobody can tell whether one without an answer had its effect.
    pub(super) async fn transaction(
        &self,
        request: TxnRequest,
        resource: GroupResource,
        within: Duration,
    ) -> Result<TxnResponse, Failure> {
        let until = (Instant::now() + within, false);
        self.call(("txn", resource), "/etcdserverpb.KV/Txn", request, until).await
    }

    /// A transaction that may have its effect twice.
    pub(super) async fn repeatable(
        &self,
        request: TxnRequest,
        within: Duration,
    ) -> Result<TxnResponse, Failure> {
        let until = (Instant::now() + within, true);
        self.call(("txn", NO_RESOURCE), "/etcdserverpb.KV/Txn", request, until).await
    }

    pub(super) async fn compact(&self, revision: i64, within: Duration) -> Result<(), Failure> {
        let request = CompactionRequest { revision };
        let until = (Instant::now() + within, true);
        let about = ("compact", NO_RESOURCE);
        match self.call::<_, CompactionResponse>(about, "/etcdserverpb.KV/Compact", request, until).await {
            // Somebody else has compacted as far.
            Ok(_) | Err(Failure::Compacted) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Grants a lease. Returns its id.
    pub(super) async fn grant(&self, seconds: i64, within: Duration) -> Result<i64, Failure> {
        let request = LeaseGrantRequest { ttl: seconds };
        let until = (Instant::now() + within, true);
        let about = ("grantLease", NO_RESOURCE);
        let answer: LeaseGrantResponse =
            self.call(about, "/etcdserverpb.Lease/LeaseGrant", request, until).await?;
        if answer.error.is_empty() { Ok(answer.id) } else { Err(Failure::Refused(answer.error)) }
    }

    pub(super) async fn status(&self, within: Duration) -> Result<StatusResponse, Failure> {
        let until = (Instant::now() + within, true);
        let about = ("status", NO_RESOURCE);
        self.call(about, "/etcdserverpb.Maintenance/Status", StatusRequest {}, until).await
    }

    /// Opens a watch at the current member, whose number is returned too.
    pub(super) async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<(usize, Streaming<WatchResponse>), (usize, Failure)> {
        let (member, server, channel) = self.member();
        let failed = |why: String| (member, Failure::Unavailable(format!("{server}: {why}")));
        let mut grpc = Grpc::new(channel).max_decoding_message_size(MOST_BYTES);
        let ready = timeout_at((Instant::now() + ATTEMPT).into(), grpc.ready()).await;
        ready
            .map_err(|_| failed("no connection in time".to_owned()))?
            .map_err(|error| failed(chain(&error)))?;
        // The stream of requests stays open as long as that of the answers.
        let requests = Requests(Some(request));
        let mut asked = tonic::Request::new(requests);
        // A member without a leader ends the watch, instead of being silent.
        asked.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let opened = timeout_at((Instant::now() + ATTEMPT).into(), grpc.streaming(asked, path, codec)).await;
        let opened = opened.map_err(|_| failed("no answer in time".to_owned()))?;
        Ok((member, opened.map_err(|status| failed(chain(&status)))?.into_inner()))
    }
}

fn invalid(server: &str, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Refused(format!("the etcd server {server:?}: {error}"))
}

/// One request, after which the stream stays open.
struct Requests(Option<WatchRequest>);

impl futures_util::Stream for Requests {
    type Item = WatchRequest;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<WatchRequest>> {
        match self.0.take() {
            Some(request) => std::task::Poll::Ready(Some(request)),
            None => std::task::Poll::Pending,
        }
    }
}

/// Whether a call failed because no connection could be made.
fn is_refused_connection(status: &tonic::Status) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(status);
    while let Some(error) = cause {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An error with its root cause: the causes in between repeat each other.
fn chain(error: &dyn std::error::Error) -> String {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    let (text, cause) = (error.to_string(), root.to_string());
    let text: String = text.chars().take(200).collect();
    if text.contains(&cause) { text } else { format!("{text}: {cause}") }
}
