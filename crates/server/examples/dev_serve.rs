#![allow(missing_docs, clippy::unwrap_used)]
use portcullis_policy::chain::Mode;
use portcullis_policy::engine::{Builder, EngineConfig};
use portcullis_server::authn::Authentication;
use portcullis_server::authz::Authorization;
use portcullis_server::backend::Backend;
use portcullis_server::bootstrap::Bootstrap;
use portcullis_server::config::{Limits, RuntimeConfig};
use portcullis_server::{App, Server};
use std::sync::Arc;
use std::time::SystemTime;
#[tokio::main]
async fn main() {
    let dir = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let bootstrap = Bootstrap::prepare(&dir, "127.0.0.1".parse().unwrap(), SystemTime::now()).unwrap();
    let engine = Builder::new(EngineConfig {
        modes: vec![Mode::Node, Mode::Rbac],
        masters_first: true,
        default_policy: true,
        admission: true,
        ..EngineConfig::default()
    })
    .unwrap()
    .finish();
    let app = App::new(
        Authentication::new(bootstrap.clients.clone(), true),
        Authorization::new(engine),
        RuntimeConfig::default(),
        Limits::default(),
    )
    .with_backend(Backend::Memory(Default::default()));
    let app = Arc::new(app);
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), bootstrap.tls.clone(), app).await.unwrap();
    bootstrap.write_kubeconfig(server.local_addr().unwrap().port()).unwrap();
    println!("ready");
    server.serve(std::future::pending()).await;
}
