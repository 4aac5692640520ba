//! How fast the store in etcd is, beside what etcd itself can do on this machine: durable writes of many callers, reads that
//! must be fresh, and reading everything at the start. Needs the Debian packages etcd-server and etcd-client.
//!
//! `cargo bench -p portcullis-store --bench etcd -- [SECONDS [OBJECTS]]`, of each measurement and in the etcd that is read at
//! the start.
//!
//! The limit is a client of a few lines that sends the same values as plain puts, and as transactions of one put, without
//! conditions, without a watch and without a copy in memory.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::missing_const_for_fn,
    reason = "a measurement that cannot be set up must stop"
)]

#[path = "../tests/etcd/layout.rs"]
mod layout;

use std::process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::uri::PathAndQuery;
use portcullis_store::etcd::Options;
use portcullis_store::{Etcd, Expect, Store, Value, Write};
use portcullis_testkit::etcd::Etcd as Server;
use portcullis_testkit::process::{processor_time, resident_bytes};
use prost::Message;
use tokio::task::JoinSet;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use self::layout::Plain;

const LEASES: usize = 5_000;
/// The most operations of a transaction, by etcd's default.
const MOST_OPERATIONS: usize = 128;

#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Operation {
    #[prost(message, optional, tag = "2")]
    put: Option<Put>,
}

#[derive(Clone, PartialEq, Message)]
struct Transaction {
    #[prost(message, repeated, tag = "2")]
    success: Vec<Operation>,
}

/// The answers have nothing of interest.
#[derive(Clone, PartialEq, Message)]
struct Answer {}

/// etcd alone.
#[derive(Clone)]
struct Plainly(Grpc<Channel>);

impl Plainly {
    fn to(server: &Server) -> Self {
        let endpoint = Endpoint::from_shared(server.endpoint()).unwrap().tcp_nodelay(true);
        Self(Grpc::new(endpoint.connect_lazy()))
    }

    async fn call<Q: Message + 'static>(&mut self, path: &'static str, request: Q) {
        self.0.ready().await.unwrap();
        let codec = ProstCodec::<Q, Answer>::default();
        let path = PathAndQuery::from_static(path);
        self.0.unary(tonic::Request::new(request), path, codec).await.unwrap();
    }

    async fn put(&mut self, put: Put) {
        self.call("/etcdserverpb.KV/Put", put).await;
    }

    /// Puts all at once.
    async fn transaction(&mut self, puts: &[Put]) {
        let success = puts.iter().map(|put| Operation { put: Some(put.clone()) }).collect();
        self.call("/etcdserverpb.KV/Txn", Transaction { success }).await;
    }
}

fn lease(number: usize) -> String {
    format!("/coordination.k8s.io/leases/kube-node-lease/node-{number:05}")
}

/// A value in etcd, as the layout writes it.
fn put(key: &str) -> Put {
    let value = [b"250|".as_slice(), &[b'x'; 500]].concat();
    Put { key: format!("/registry{key}").into(), value: value.into() }
}

fn write(key: String) -> Write {
    let value = Value { bytes: Bytes::from(vec![b'x'; 500]), revision_at: Some(250), relies_on: None };
    Write { key: key.into(), expect: Expect::Anything, value: Some(value) }
}

async fn fill(server: &Server, keys: impl Iterator<Item = String>) {
    let client = Plainly::to(server);
    let puts: Vec<Put> = keys.map(|key| put(&key)).collect();
    let mut filling = JoinSet::new();
    for puts in puts.chunks(puts.len().div_ceil(8)) {
        let (mut client, puts) = (client.clone(), puts.to_vec());
        filling.spawn(async move {
            for some in puts.chunks(MOST_OPERATIONS) {
                client.transaction(some).await;
            }
        });
    }
    filling.join_all().await;
}

async fn open(server: &Server) -> Etcd {
    Options::new(vec![server.endpoint()], Arc::new(Plain)).open().await.unwrap()
}

/// Has callers make calls at the same time, and prints how many they made, how long a call took, and how much time of the
/// processors etcd and this process used for it. A call is told its key; no two callers have the same.
async fn measure<F>(
    what: &str,
    server: &Server,
    (seconds, callers): (u64, usize),
    call: impl Fn(String) -> F + Clone + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let used = || [server.id(), process::id()].map(processor_time);
    let (began, before) = (Instant::now(), used());
    let end = began + Duration::from_secs(seconds);
    let mut calling = JoinSet::new();
    for caller in 0..callers {
        let call = call.clone();
        calling.spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < end {
                let began = Instant::now();
                call(lease((times.len() * callers + caller) % (LEASES / callers * callers))).await;
                times.push(began.elapsed());
            }
            times
        });
    }
    let mut times = calling.join_all().await.concat();
    let (took, after) = (began.elapsed(), used());
    times.sort();
    let count = times.len();
    let each = |at: usize| (after[at] - before[at]).as_secs_f64() * 1e6 / count as f64;
    let part = |hundredths: usize| times[count * hundredths / 100].as_secs_f64() * 1e3;
    println!(
        "{what}, {callers} at a time: {:.0}/s, p50 {:.2} ms, p99 {:.2} ms; processors: {:.0} us of etcd and {:.0} us of \
         this process each",
        count as f64 / took.as_secs_f64(),
        part(50),
        part(99),
        each(0),
        each(1)
    );
}

async fn durable_writes(seconds: u64) {
    // One that nobody follows, and one for the store.
    let [alone, followed] = [Server::start(), Server::start()];
    for server in [&alone, &followed] {
        fill(server, (0..LEASES).map(lease)).await;
    }
    let client = Plainly::to(&alone);
    let store = Arc::new(open(&followed).await);
    for callers in [1, 32, 256] {
        let (putting, transacting) = (client.clone(), client.clone());
        measure("plain puts", &alone, (seconds, callers), move |key| {
            let mut client = putting.clone();
            async move { client.put(put(&key)).await }
        })
        .await;
        measure("plain transactions", &alone, (seconds, callers), move |key| {
            let mut client = transacting.clone();
            async move { client.transaction(&[put(&key)]).await }
        })
        .await;
        let store = Arc::clone(&store);
        measure("commits", &followed, (seconds, callers), move |key| {
            let store = Arc::clone(&store);
            async move { drop(store.commit(vec![write(key)]).await.unwrap()) }
        })
        .await;
    }
}

async fn fresh_reads(seconds: u64) {
    let server = Server::start();
    fill(&server, (0..LEASES).map(lease)).await;
    let store = Arc::new(open(&server).await);
    for callers in [1, 64] {
        let store = Arc::clone(&store);
        measure("fresh reads", &server, (seconds, callers), move |key| {
            let store = Arc::clone(&store);
            async move {
                store.fresh().await.unwrap();
                store.get(&key).await.unwrap().unwrap();
            }
        })
        .await;
    }
}

async fn opening(objects: usize) {
    let server = Server::start();
    fill(&server, (0..objects).map(lease)).await;
    for _ in 0..3 {
        let used = || [server.id(), process::id()].map(processor_time);
        let (began, before) = (Instant::now(), used());
        let store = open(&server).await;
        let (took, after) = (began.elapsed(), used());
        println!(
            "open with {objects} objects: {:.2} s; processors: {:.2} s of etcd and {:.2} s of this process; etcd has {} MiB",
            took.as_secs_f64(),
            (after[0] - before[0]).as_secs_f64(),
            (after[1] - before[1]).as_secs_f64(),
            resident_bytes(server.id()) >> 20
        );
        drop(store);
    }
}

#[tokio::main]
async fn main() {
    // Cargo adds words of its own.
    let mut numbers = std::env::args().filter_map(|argument| argument.parse().ok());
    let seconds = numbers.next().unwrap_or(5);
    let objects = numbers.next().unwrap_or(305_000);
    durable_writes(seconds).await;
    fresh_reads(seconds).await;
    opening(usize::try_from(objects).unwrap()).await;
}
