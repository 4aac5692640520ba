//! A client that upgrades its connection to another protocol and then has a byte stream whose two directions close
//! separately: what `kubectl exec` does, without the protocol on the stream.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use crate::https::Identity;

/// How long a read waits for data before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The key of the example in RFC 6455, section 1.3, and the answer to it.
const KEY: (&str, &str) = ("dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");

/// The protocol to change to.
#[derive(Clone, Copy, Debug)]
pub enum Protocol<'a> {
    /// WebSocket, with these subprotocols on offer.
    WebSocket(&'a [&'a str]),
    /// SPDY/3.1, with these versions of the stream protocol on offer.
    Spdy(&'a [&'a str]),
    /// None: a plain request.
    Plain,
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// Its status code.
    pub code: u16,
    /// Its headers: names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Response {
    /// The first value of a header, whose name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A TLS connection whose two directions are used independently, from several threads if need be: `&ByteStream` reads
/// and writes. Reading ends with 0 bytes at the other side's `close_notify`, and with an error where the connection is
/// cut without one. Dropped, it is cut.
pub struct ByteStream {
    tcp: TcpStream,
    tls: Mutex<ClientConnection>,
    /// Held while something is sent, so that records stay in order.
    sending: Mutex<()>,
    /// What came and was not taken in yet.
    held: Mutex<Vec<u8>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ByteStream {
    /// Connects to a server of this machine. Identities with a token have it sent by [`ByteStream::request`] only if
    /// that is told so.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(address: SocketAddr, identity: &Identity) -> io::Result<Self> {
        let tcp = TcpStream::connect(address)?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        tcp.set_write_timeout(Some(PATIENCE))?;
        let name = ServerName::from(address.ip());
        let tls = ClientConnection::new(Arc::clone(&identity.config), name).map_err(io::Error::other)?;
        Ok(Self { tcp, tls: Mutex::new(tls), sending: Mutex::new(()), held: Mutex::default() })
    }

    /// Sends what TLS has ready. The connection is not locked meanwhile: who reads goes on.
    fn send(&self, prepare: impl FnOnce(&mut ClientConnection) -> io::Result<()>) -> io::Result<()> {
        let _sending = locked(&self.sending);
        let mut bytes = Vec::new();
        {
            let mut tls = locked(&self.tls);
            prepare(&mut tls)?;
            while tls.wants_write() {
                tls.write_tls(&mut bytes)?;
            }
        }
        (&self.tcp).write_all(&bytes)
    }

    fn handshake(&self) -> io::Result<()> {
        if !locked(&self.tls).is_handshaking() {
            return Ok(());
        }
        while locked(&self.tls).is_handshaking() {
            self.send(|_| Ok(()))?;
            if locked(&self.tls).is_handshaking() {
                self.receive()?;
            }
        }
        self.send(|_| Ok(()))
    }

    /// Sends what TLS has to answer by itself. Where something is being sent it goes out with what is sent next: who
    /// reads never waits for who writes, or both ends could wait for each other.
    fn answer(&self) -> io::Result<()> {
        let Ok(_sending) = self.sending.try_lock() else { return Ok(()) };
        let mut bytes = Vec::new();
        {
            let mut tls = locked(&self.tls);
            while tls.wants_write() {
                tls.write_tls(&mut bytes)?;
            }
        }
        (&self.tcp).write_all(&bytes)
    }

    /// Takes some bytes of TLS in: no more of them than whoever reads has room for.
    fn receive(&self) -> io::Result<()> {
        let mut held = locked(&self.held);
        if held.is_empty() {
            held.resize(16 * 1024, 0);
            let read = (&self.tcp).read(&mut held);
            held.truncate(*read.as_ref().unwrap_or(&0));
            if read? == 0 {
                let mut tls = locked(&self.tls);
                tls.read_tls(&mut io::empty())?;
                tls.process_new_packets().map_err(io::Error::other)?;
                return Ok(());
            }
        }
        let mut bytes = held.as_slice();
        let mut tls = locked(&self.tls);
        while !bytes.is_empty() && tls.wants_read() {
            tls.read_tls(&mut bytes)?;
            tls.process_new_packets().map_err(io::Error::other)?;
        }
        let used = held.len() - bytes.len();
        held.drain(..used);
        Ok(())
    }

    /// Says that no more is sent (`close_notify`). Reading goes on.
    ///
    /// # Errors
    /// The connection broke.
    pub fn close_write(&self) -> io::Result<()> {
        self.send(|tls| {
            tls.send_close_notify();
            Ok(())
        })
    }

    /// Cuts the connection without `close_notify`.
    pub fn cut(&self) {
        // It may be gone already.
        let _ = self.tcp.shutdown(Shutdown::Both);
    }

    /// How long a read waits before it fails.
    pub fn patience(&self, patience: Duration) {
        self.tcp.set_read_timeout(Some(patience)).unwrap();
    }

    /// Sends a request without a body. `Host`, and what the protocol asks for, are added.
    ///
    /// # Errors
    /// The connection broke.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        protocol: Protocol<'_>,
    ) -> io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
        let mut add = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
        headers.iter().for_each(|(name, value)| add(name, value));
        match protocol {
            Protocol::WebSocket(offered) => {
                add("Connection", "Upgrade");
                add("Upgrade", "websocket");
                add("Sec-WebSocket-Version", "13");
                add("Sec-WebSocket-Key", KEY.0);
                if !offered.is_empty() {
                    add("Sec-WebSocket-Protocol", &offered.join(", "));
                }
            }
            Protocol::Spdy(offered) => {
                add("Connection", "Upgrade");
                add("Upgrade", "SPDY/3.1");
                offered.iter().for_each(|version| add("X-Stream-Protocol-Version", version));
            }
            Protocol::Plain => {}
        }
        if method != "GET" {
            add("Content-Length", "0");
        }
        head.push_str("\r\n");
        (&mut &*self).write_all(head.as_bytes())
    }

    /// Reads the head of an answer.
    ///
    /// # Errors
    /// The connection broke, or what came is no head.
    pub fn response(&self) -> io::Result<Response> {
        let (mut stream, mut head, mut byte) = (self, Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head);
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 "));
        let code = status.and_then(|status| status.get(..3)?.parse().ok());
        let code =
            code.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, head.clone().into_owned()))?;
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers =
            headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        Ok(Response { code, headers })
    }

    /// Reads the body of an answer that says how long it is.
    ///
    /// # Errors
    /// The connection broke.
    pub fn body(&self, response: &Response) -> io::Result<Vec<u8>> {
        let length = response.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let (mut stream, mut body) = (self, vec![0; length]);
        stream.read_exact(&mut body)?;
        Ok(body)
    }
}

impl Read for &ByteStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.handshake()?;
        loop {
            match locked(&self.tls).reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            self.receive()?;
            self.answer()?;
        }
    }
}

impl Write for &ByteStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.handshake()?;
        let mut written = 0;
        self.send(|tls| {
            written = tls.writer().write(buffer)?;
            Ok(())
        })?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connects, asks for a change of protocol, and returns the answer and the stream behind it, be it changed (101) or
/// not. The identity's token is sent if it has one.
///
/// # Errors
/// The connection broke, or the answer to a WebSocket key is not the one that RFC 6455 names.
pub fn open(
    address: SocketAddr,
    identity: &Identity,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    protocol: Protocol<'_>,
) -> io::Result<(Response, ByteStream)> {
    let stream = ByteStream::connect(address, identity)?;
    let token = identity.token.as_ref().map(|token| format!("Bearer {token}"));
    let token = token.as_deref().map(|token| ("Authorization", token));
    let headers: Vec<(&str, &str)> = headers.iter().copied().chain(token).collect();
    stream.request(method, path, &headers, protocol)?;
    let response = stream.response()?;
    if response.code == 101
        && matches!(protocol, Protocol::WebSocket(_))
        && response.header("sec-websocket-accept") != Some(KEY.1)
    {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a wrong key: {response:?}")));
    }
    Ok((response, stream))
}
