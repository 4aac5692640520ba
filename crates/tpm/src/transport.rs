//! An open device or socket: one command goes out, one response comes back (ST-29). It understands no command.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::error::TpmError;
use crate::wire::{MAX_BYTES, Malformed, Reader};

/// How long to wait before a device that another program has open is tried again.
const DEVICE_RETRY: Duration = Duration::from_millis(50);
/// How many addresses of a host name are tried.
const MAX_ADDRESSES: usize = 4;
/// The header of a response: tag, size, code.
const HEADER_BYTES: usize = 10;

/// An open device or socket.
#[derive(Debug)]
pub(crate) struct Transport {
    stream: Stream,
    address: String,
    timeout: Duration,
    /// A command failed: what comes now could be the response to it.
    is_broken: bool,
}

#[derive(Debug)]
enum Stream {
    Device(File),
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Transport {
    /// Opens a TPM. Waits at most `timeout` for one that another program uses.
    pub(crate) fn open(address: &Address, timeout: Duration) -> Result<Self, TpmError> {
        let stream = match address {
            Address::Device(path) => device(path, timeout).map(Stream::Device),
            Address::Unix(path) => unix(path.clone(), timeout).map(Stream::Unix),
            Address::Tcp { host, port } => tcp(host, *port, timeout).map(Stream::Tcp),
        };
        let address = address.to_string();
        match stream {
            Ok(stream) => Ok(Self { stream, address, timeout, is_broken: false }),
            Err(source) if is_busy(&source) => Err(TpmError::Busy { address }),
            Err(source) => Err(TpmError::Open { address, source }),
        }
    }

    /// Sends a command and returns its response: at least a header, and as long as its header says. After a failure
    /// every other command fails too.
    pub(crate) fn exchange(&mut self, name: &'static str, command: &[u8]) -> Result<Vec<u8>, TpmError> {
        let deadline = Instant::now() + self.timeout;
        let response = if self.is_broken {
            Err(ErrorKind::BrokenPipe.into())
        } else {
            self.send(command, deadline).and_then(|()| self.receive(deadline))
        };
        self.is_broken = !matches!(response, Ok(Ok(_)));
        match response {
            Ok(response) => response.map_err(|why| TpmError::Response { command: name, why }),
            Err(source) if is_busy(&source) => Err(TpmError::Busy { address: self.address.clone() }),
            Err(source) => Err(TpmError::Io { command: name, address: self.address.clone(), source }),
        }
    }

    fn send(&mut self, command: &[u8], deadline: Instant) -> io::Result<()> {
        let left = time_left(deadline)?;
        match &mut self.stream {
            // The kernel takes a command in one piece.
            Stream::Device(file) => file.write_all(command),
            Stream::Unix(socket) => {
                socket.set_write_timeout(Some(left))?;
                socket.write_all(command)
            }
            Stream::Tcp(socket) => {
                socket.set_write_timeout(Some(left))?;
                socket.write_all(command)
            }
        }
    }

    fn receive(&mut self, deadline: Instant) -> io::Result<Result<Vec<u8>, Malformed>> {
        let mut buffer = [0; MAX_BYTES];
        let mut filled = 0;
        loop {
            let Some(free) = buffer.get_mut(filled..) else { return Ok(Err(TOO_LARGE)) };
            let read = match self.read(free, deadline) {
                Ok(0) => return Ok(Err(Malformed("it ends too early"))),
                Ok(read) => read,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            filled = filled.saturating_add(read);
            let Some(received) = buffer.get(..filled) else { return Ok(Err(TOO_LARGE)) };
            if filled < HEADER_BYTES {
                continue;
            }
            match announced(received) {
                Ok(size) if filled == size => return Ok(Ok(received.to_vec())),
                Ok(size) if filled > size => return Ok(Err(Malformed("bytes follow its end"))),
                Ok(_) => {}
                Err(why) => return Ok(Err(why)),
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        match &mut self.stream {
            // The kernel bounds how long a command takes.
            Stream::Device(file) => file.read(buffer),
            Stream::Unix(socket) => {
                socket.set_read_timeout(Some(time_left(deadline)?))?;
                socket.read(buffer)
            }
            Stream::Tcp(socket) => {
                socket.set_read_timeout(Some(time_left(deadline)?))?;
                socket.read(buffer)
            }
        }
    }
}

const TOO_LARGE: Malformed = Malformed("it is larger than 4096 bytes");

/// The size that the header of a response announces.
fn announced(received: &[u8]) -> Result<usize, Malformed> {
    let mut header = Reader::new(received);
    header.u16()?;
    let size = usize::try_from(header.u32()?).map_err(|_| TOO_LARGE)?;
    match size {
        0..HEADER_BYTES => Err(Malformed("its size is smaller than its header")),
        HEADER_BYTES..=MAX_BYTES => Ok(size),
        _ => Err(TOO_LARGE),
    }
}

fn time_left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn is_busy(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::ResourceBusy)
}

fn device(path: &Path, timeout: Duration) -> io::Result<File> {
    // Opening anything else could block without end.
    if !path.metadata()?.file_type().is_char_device() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no character device"));
    }
    let deadline = Instant::now() + timeout;
    loop {
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(e) if e.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline => {
                thread::sleep(DEVICE_RETRY)
            }
            done => return done,
        }
    }
}

/// Connecting to a Unix socket blocks while the queue of its server is full, so a thread does it.
fn unix(path: PathBuf, timeout: Duration) -> io::Result<UnixStream> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("tpm-connect".to_owned()).spawn(move || {
        // Nobody receives it after the timeout; then the connection closes here.
        let _ = sender.send(UnixStream::connect(path));
    })?;
    receiver.recv_timeout(timeout).map_err(|_| io::Error::from(ErrorKind::TimedOut))?
}

fn tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let deadline = Instant::now() + timeout;
    let mut failure = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()?.take(MAX_ADDRESSES) {
        match time_left(deadline).and_then(|left| TcpStream::connect_timeout(&address, left)) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(e) => failure = e,
        }
    }
    Err(failure)
}
