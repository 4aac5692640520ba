//! `/healthz`, `/readyz` and `/metrics` of a program that serves nothing else (NC-10): GET over HTTP/1.1, one request
//! per connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use portcullis_client::metrics;
use portcullis_server::metrics::ProcessMetrics;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::failure::Failure;

/// The timeout of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum size of a request. In bytes.
const LONGEST: usize = 8 * 1024;

/// The health and metrics of a program.
pub(crate) trait Health: Send + Sync + 'static {
    /// Returns why the program is not ready, if it is not.
    fn unready(&self) -> Option<String>;

    /// Registers the metrics of what the program does. Those of its process are there already.
    fn register(&self, registry: &mut Registry);
}

/// Listens at the address, if there is one, until the set of tasks is dropped.
///
/// # Errors
/// The address is not available.
pub(crate) async fn serve(
    address: Option<SocketAddr>,
    health: Arc<dyn Health>,
    tasks: &mut JoinSet<()>,
) -> Result<(), Failure> {
    let Some(address) = address else { return Ok(()) };
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::unreachable(format_args!("cannot listen at --metrics-bind-address {address}: {error}"))
    })?;
    let bound = listener.local_addr().unwrap_or(address);
    tracing::info!(address = %bound, "answering /healthz, /readyz and /metrics");
    tasks.spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let health = Arc::clone(&health);
            tokio::spawn(async move {
                let _ = tokio::time::timeout(PATIENCE, answer(stream, &*health)).await;
            });
        }
    });
    Ok(())
}

async fn answer(mut stream: TcpStream, health: &dyn Health) -> std::io::Result<()> {
    let mut read = Vec::new();
    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 1024];
        let count = stream.read(&mut piece).await?;
        if count == 0 || read.len() > LONGEST {
            return Ok(());
        }
        read.extend(piece.iter().take(count));
    }
    let text = String::from_utf8_lossy(&read);
    let mut words = text.split_ascii_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let (status, body) = match (method, path) {
        ("GET", "/healthz" | "/livez") => ("200 OK", "ok".to_owned()),
        ("GET", "/readyz") => match health.unready() {
            None => ("200 OK", "ok".to_owned()),
            Some(why) => ("503 Service Unavailable", why),
        },
        ("GET", "/metrics") => {
            let mut registry = Registry::default();
            registry.register_collector(Box::new(ProcessMetrics));
            health.register(&mut registry);
            match metrics::exposition(&registry) {
                Ok(text) => ("200 OK", text),
                Err(_) => ("500 Internal Server Error", "cannot write the metrics".to_owned()),
            }
        }
        ("GET", _) => ("404 Not Found", "not found".to_owned()),
        _ => ("405 Method Not Allowed", "only GET".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        metrics::CONTENT_TYPE,
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
