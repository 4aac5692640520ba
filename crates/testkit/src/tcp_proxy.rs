//! A TCP proxy on the loopback interface that a test can cut, reset and slow down: a network that fails.
//!
//! It loses and invents no bytes: what is held while the network is cut arrives when it is healed, as TCP does it.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

/// How many connections pass at once. More wait until one ends.
const CONNECTIONS: usize = 256;

/// How many bytes are read at once, and how many such chunks of a direction are held while they are delayed.
const CHUNK: usize = 16 << 10;
const CHUNKS: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Network {
    is_cut: bool,
    /// Whether nothing passes from the target to clients.
    holds_answers: bool,
    /// How long every byte is on its way, in each direction.
    delay: Duration,
    /// How often all connections were reset.
    resets: u64,
}

impl Network {
    /// Whether no byte passes in this direction.
    fn holds(&self, direction: Direction) -> bool {
        self.is_cut || (direction == Direction::ToClient && self.holds_answers)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToTarget,
    ToClient,
}

/// A proxy to one target. Dropping it closes the port and all connections.
#[derive(Debug)]
pub struct TcpProxy {
    address: SocketAddr,
    network: watch::Sender<Network>,
    /// Dropped, it ends the thread.
    running: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TcpProxy {
    /// Starts a proxy to this address on a port that is free. The target need not listen yet: it is connected to once
    /// for each connection to the proxy, which is reset if that fails.
    ///
    /// # Panics
    /// There is no port, or no thread.
    #[track_caller]
    pub fn start(target: impl Into<SocketAddr>) -> Self {
        let target = target.into();
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        listener.set_nonblocking(true).expect("a listener can be asynchronous");
        let address = listener.local_addr().expect("the listener has an address");
        let (network, seen) = watch::channel(Network::default());
        let (running, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("tcp-proxy".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            // Tasks that still run end with the runtime.
            runtime.expect("a runtime").block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    _ = ended => {}
                    () = accept(&listener, target, &seen) => {}
                }
            });
        });
        Self { address, network, running: Some(running), thread: Some(thread.expect("a thread")) }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts the network: from the return of this call on no byte passes, and no end of a connection. New connections
    /// are accepted and silent. Clients learn of it by their own timeouts only.
    pub fn cut(&self) {
        self.network.send_modify(|network| network.is_cut = true);
    }

    /// As [`TcpProxy::cut`], but what clients send goes on to arrive: the target does what it is asked for, and nobody
    /// learns of it.
    pub fn hold_answers(&self) {
        self.network.send_modify(|network| network.holds_answers = true);
    }

    /// Lets everything pass again, also what was held.
    pub fn heal(&self) {
        self.network.send_modify(|network| {
            network.is_cut = false;
            network.holds_answers = false;
        });
    }

    /// Resets all connections that passed or were held; both sides see it at once, and what was held is lost. New ones are as
    /// before.
    pub fn reset(&self) {
        self.network.send_modify(|network| network.resets += 1);
    }

    /// Lets every byte arrive this much later, in each direction.
    pub fn delay(&self, delay: Duration) {
        self.network.send_modify(|network| network.delay = delay);
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.running.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: &TcpListener, target: SocketAddr, network: &watch::Receiver<Network>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("nobody closes it");
        // An error is that of one connection, which is gone.
        let Ok((client, _)) = listener.accept().await else { continue };
        let network = network.clone();
        tokio::spawn(async move {
            relay(client, target, network).await;
            drop(place);
        });
    }
}

/// Serves one connection until both directions have ended, one is broken, or it is reset.
async fn relay(mut client: TcpStream, target: SocketAddr, mut network: watch::Receiver<Network>) {
    let resets = network.borrow().resets;
    let mut reset = network.clone();
    let is_reset = reset.wait_for(|network| network.resets != resets);
    tokio::pin!(is_reset);
    // A reset is looked at first: after `reset` and `heal`, nothing that was held may pass.
    let connected = tokio::select! {
        biased;
        _ = &mut is_reset => None,
        server = connect(target, &mut network) => server.ok(),
    };
    let Some(mut server) = connected else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = client.set_nodelay(true);
    let is_broken = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let up = pass(from_client, to_server, Direction::ToTarget, network.clone());
        let down = pass(from_server, to_client, Direction::ToClient, network);
        tokio::select! {
            biased;
            _ = &mut is_reset => true,
            passed = async { tokio::try_join!(up, down) } => passed.is_err(),
        }
    };
    if is_broken {
        let _ = client.set_zero_linger();
        let _ = server.set_zero_linger();
    }
}

async fn connect(target: SocketAddr, network: &mut watch::Receiver<Network>) -> io::Result<TcpStream> {
    healed(network, Direction::ToTarget).await;
    let server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    Ok(server)
}

/// Waits while nothing passes. Without a sender the runtime is about to end.
async fn healed(network: &mut watch::Receiver<Network>, direction: Direction) {
    let _ = network.wait_for(|network| !network.holds(direction)).await;
}

/// Passes one direction on, and its end.
async fn pass(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    direction: Direction,
    mut network: watch::Receiver<Network>,
) -> io::Result<()> {
    let (held, mut due) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS);
    let delays = network.clone();
    let read = async move {
        loop {
            let mut chunk = vec![0; CHUNK];
            let length = from.read(&mut chunk).await?;
            chunk.truncate(length);
            let at = Instant::now() + delays.borrow().delay;
            // An empty chunk is the end.
            if held.send((at, chunk)).await.is_err() || length == 0 {
                return Ok(());
            }
        }
    };
    let write = async {
        while let Some((at, chunk)) = due.recv().await {
            sleep_until(at).await;
            let mut rest = chunk.as_slice();
            while !rest.is_empty() {
                healed(&mut network, direction).await;
                to.writable().await?;
                rest = &rest[try_write(&to, rest, direction, &network)?..];
            }
        }
        healed(&mut network, direction).await;
        to.shutdown().await
    };
    tokio::try_join!(read, write).map(|_| ())
}

/// Writes what fits now. The state of the network is locked meanwhile, so that a cut is complete when it returns.
fn try_write(
    to: &WriteHalf<'_>,
    bytes: &[u8],
    direction: Direction,
    network: &watch::Receiver<Network>,
) -> io::Result<usize> {
    let network = network.borrow();
    if network.holds(direction) {
        return Ok(0);
    }
    match to.try_write(bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        written => written,
    }
}
