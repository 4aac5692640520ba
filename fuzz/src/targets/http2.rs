//! Damaged HTTP/2 to the real listener, over TLS: a whole server in this process, with nothing but memory behind it.
//!
//! Each input is a connection of its own: the preface, the frames of the input, and a ping. The server answers the ping or
//! closes the connection. Nothing of the connection stays, and no thread of the server panics.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fs, future, thread};

use portcullis_pki::key::KeyPair;
use portcullis_pki::tls::{self, ClientConfig};
use portcullis_server::App;
use portcullis_server::api_server::{ApiServer, Config, Storage};
use portcullis_server::controller::selection::Selection;
use portcullis_testkit::http2::{PING, begin, frame};
use portcullis_testkit::scratch::Scratch;
use rustls::{ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;

pub(super) const FRAMES: &[&str] = &[
    "\0\0\0\x04\0\0\0\0\0",
    "\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0",
    "\0\0\x08\x06\0\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08",
    "\0\0\x04\x08\0\0\0\0\0\0\0\x7f\x7f",
    "\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08",
    "\0\0\0\x09\x04\0\0\0\x01",
    "\0\0\x03\0\0\0\0\0\x01abc",
    "\0\0\0\0\x01\0\0\0\x01",
    "\x01\x25\0\0\0\x01\x05\0\0\0",
    "\x04\x06/livez",
    "\x40\x01a\x01b",
    "content-length",
    "transfer-encoding",
    "connection",
    "expect",
];

/// A server that does not answer for so long hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// What the last ping says.
const LAST: &[u8; 8] = b"the last";
/// The flag of the answer to a ping.
const ACK: u8 = 1;
/// The size of the head of a frame, in bytes.
const HEAD: usize = 9;

/// The number of panics in this process.
static PANICS: AtomicUsize = AtomicUsize::new(0);

struct Running {
    address: SocketAddr,
    app: Arc<App>,
    client: Arc<ClientConfig>,
}

pub(super) fn http2(input: &[u8]) -> bool {
    static SERVER: OnceLock<Running> = OnceLock::new();
    let server = SERVER.get_or_init(start);
    let panics = PANICS.load(Ordering::SeqCst);
    let is_open = exchange(server, &whole(input));
    // The server ends a connection on its own threads.
    let is_gone = (0..PATIENCE.as_millis()).any(|_| {
        let is_gone = server.app.metrics().connections.open.get() == 0;
        if !is_gone {
            thread::sleep(Duration::from_millis(1));
        }
        is_gone
    });
    assert!(is_gone, "the connection stays open");
    assert_eq!(PANICS.load(Ordering::SeqCst), panics, "a thread of the server panicked");
    is_open
}

/// The frames of an input, the last one with the length that it has: else the server waits for the rest of it.
fn whole(input: &[u8]) -> Vec<u8> {
    let mut frames = Vec::with_capacity(input.len());
    let mut rest = input;
    while let Some((head, payload)) = rest.split_first_chunk::<HEAD>() {
        let [a, b, c, others @ ..] = *head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let (payload, after) = payload.split_at(length.min(payload.len()));
        let [_, length @ ..] = u32::try_from(payload.len()).expect("inputs are small").to_be_bytes();
        frames.extend(length.iter().chain(&others).chain(payload));
        rest = after;
    }
    frames
}

/// Sends the frames, and reads until the server closes. Returns whether the server took them and answered the ping.
fn exchange(server: &Running, frames: &[u8]) -> bool {
    let tcp = TcpStream::connect(server.address).expect("the server listens");
    tcp.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    tcp.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    let name = ServerName::from(server.address.ip());
    let session = ClientConnection::new(Arc::clone(&server.client), name).expect("a session");
    let mut stream = StreamOwned::new(session, tcp);
    let bytes = [&begin(), frames, &frame(PING, 0, 0, LAST)].concat();
    // The server may close before all is written: then that is read.
    let _ = stream.write_all(&bytes).and_then(|()| stream.flush());
    let is_answered = read(&mut stream, true);
    stream.conn.send_close_notify();
    let _ = stream.flush();
    let _ = stream.sock.shutdown(Shutdown::Write);
    read(&mut stream, false);
    is_answered
}

/// Reads until the connection ends, or until the last ping is answered.
fn read(stream: &mut StreamOwned<ClientConnection, TcpStream>, until_answered: bool) -> bool {
    let (mut answer, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    let wanted = frame(PING, ACK, 0, LAST);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => answer.extend_from_slice(buffer.split_at(count).0),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the server neither answers nor closes")
            }
            Err(_) => return false,
        }
        if until_answered && answer.windows(wanted.len()).any(|window| window == wanted) {
            return true;
        }
    }
}

/// Starts a server, which runs until the process ends.
fn start() -> Running {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        usual(panic);
    }));
    let dir = Scratch::new();
    let config = Config {
        data_dir: dir.path().to_owned(),
        storage: Storage::Memory,
        secure_port: 0,
        controllers: Selection::parse([]).expect("no controllers"),
        ..Config::default()
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(ApiServer::new(config)).expect("a server");
    let read = |name: &str| fs::read(dir.path().join(name)).expect("a file of the first start");
    let key = KeyPair::from_pem(&read("admin.key")).expect("a key");
    let identity = read("admin.crt");
    let authority = server.bootstrap().authority_pem().to_owned();
    let mut client =
        tls::client(authority.as_bytes(), Some((&identity, &key))).expect("the server's own authority");
    client.alpn_protocols = vec![b"h2".to_vec()];
    let (address, app) = (server.address(), Arc::clone(server.app()));
    thread::spawn(move || runtime.block_on(server.serve(future::pending())));
    Running { address, app, client: Arc::new(client) }
}
