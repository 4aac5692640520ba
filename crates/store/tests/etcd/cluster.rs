//! Stores over an etcd of the test.

use std::sync::Arc;

use portcullis_store::Etcd;
use portcullis_store::etcd::Options;
use portcullis_testkit::etcd::Etcd as Server;

use super::layout::Plain;

pub(crate) fn of_servers(servers: Vec<String>) -> Options {
    Options::new(servers, Arc::new(Plain))
}

pub(crate) fn options(etcd: &Server) -> Options {
    of_servers(vec![etcd.endpoint()])
}

pub(crate) async fn open(etcd: &Server) -> Etcd {
    options(etcd).open().await.unwrap()
}
