//! A proxy before an API server that tells watches from lists: it holds watches back, or ends them with 410 Gone, while lists
//! pass. It forwards GET requests as one identity, whoever asks.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::https::{Identity, raw};
use crate::webhook::{certificates, tls};

/// What does not pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Held {
    /// Everything passes.
    #[default]
    Nothing,
    /// The bytes of watches. New watches are accepted, and are silent too.
    Watches,
    /// The bytes of all answers.
    Everything,
}

#[derive(Debug, Default)]
struct State {
    held: Held,
    /// How often all watches were ended.
    round: usize,
    /// In which round the watch of each path was last answered 410.
    told: HashMap<String, usize>,
    /// The connections of watches to the server.
    watches: Vec<TcpStream>,
    /// The requests for the first page of a list of all objects, by path.
    lists: HashMap<String, usize>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Waits until the bytes of an answer may pass. False: its watch was ended.
    fn passes(&self, is_watch: bool, round: usize) -> bool {
        let held = |state: &mut State| match state.held {
            Held::Nothing => false,
            Held::Watches => is_watch && state.round == round,
            Held::Everything => true,
        };
        let state = self.changed.wait_while(self.state(), held).unwrap_or_else(PoisonError::into_inner);
        !is_watch || state.round == round
    }
}

/// The proxy. Connections end with their clients.
#[derive(Debug)]
pub struct WatchProxy {
    folder: PathBuf,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl WatchProxy {
    /// Starts a proxy before the server at this address, whose certificates lie in a folder below this one.
    #[track_caller]
    pub fn start(below: &Path, target: SocketAddr, identity: &Identity) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("the listener has an address");
        let folder = below.join(format!("watch-proxy-{}", address.port()));
        fs::create_dir_all(&folder).expect("the folder is writable");
        certificates(&folder);
        let (config, shared) = (tls(&folder, "service"), Arc::<Shared>::default());
        let (state, identity) = (Arc::clone(&shared), identity.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, state, identity) = (Arc::clone(&config), Arc::clone(&state), identity.clone());
                // A client or a server that disconnects is no concern of a test.
                thread::spawn(move || drop(relay(stream, config, target, &identity, &state)));
            }
        });
        Self { folder, address, shared }
    }

    /// A kubeconfig of whoever is to go through the proxy.
    pub fn kubeconfig(&self) -> PathBuf {
        let path = self.folder.join("kubeconfig");
        let document = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://{}", self.address), "certificate-authority": self.folder.join("ca.pem"),
            }}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        fs::write(&path, document.to_string()).expect("the folder is writable");
        path
    }

    /// Holds back from now on what is named, and nothing else. What was held before and is not any more arrives.
    pub fn hold(&self, held: Held) {
        self.shared.change(|state| state.held = held);
    }

    /// Ends all watches, and answers the next one of each path with 410 Gone.
    pub fn expire(&self) {
        self.shared.change(|state| {
            state.round += 1;
            // One that is quiet is ended by its connection. It may have ended already.
            state.watches.drain(..).for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
        });
    }

    /// How often the objects of a path were listed from the beginning.
    pub fn lists(&self, path: &str) -> usize {
        self.shared.state().lists.get(path).copied().unwrap_or_default()
    }
}

/// Forwards one request, and its answer until it ends.
fn relay(
    tcp: TcpStream,
    config: Arc<ServerConfig>,
    target: SocketAddr,
    identity: &Identity,
    shared: &Shared,
) -> io::Result<()> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut client = BufReader::new(StreamOwned::new(connection, tcp));
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if client.read_line(&mut line)? == 0 {
            return Ok(());
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let request = lines.first().cloned().unwrap_or_default();
    let target_of_request = request.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target_of_request.split_once('?').unwrap_or((target_of_request, ""));
    let has = |wanted: &str| query.split('&').any(|field| field == wanted);
    let is_watch = has("watch=true");
    let (round, is_gone) = {
        let mut state = shared.state();
        if !is_watch && !has("limit=1") && !query.contains("continue=") {
            *state.lists.entry(path.to_owned()).or_default() += 1;
        }
        let round = state.round;
        let told = state.told.entry(path.to_owned()).or_default();
        let is_gone = is_watch && *told < round;
        if is_gone {
            *told = round;
        }
        (round, is_gone)
    };
    let client = client.get_mut();
    if is_gone {
        let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}"#;
        let head = "HTTP/1.1 410 Gone\r\nContent-Type: application/json\r\nConnection: close\r\n";
        client.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
        return client.flush();
    }
    let is_passed = |line: &&String| !line.to_ascii_lowercase().starts_with("connection:");
    let head: String = lines.iter().filter(is_passed).map(|line| format!("{line}\r\n")).collect();
    let mut server = raw(target, (Ipv4Addr::LOCALHOST, 0).into(), identity, "http/1.1")?;
    if is_watch {
        let socket = server.sock.try_clone()?;
        shared.change(|state| match state.round == round {
            true => state.watches.push(socket),
            false => drop(socket.shutdown(Shutdown::Both)),
        });
    }
    server.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
    let mut chunk = vec![0; 16 << 10];
    loop {
        let length = server.read(&mut chunk)?;
        if length == 0 {
            client.conn.send_close_notify();
            return client.flush();
        }
        if !shared.passes(is_watch, round) {
            return Ok(());
        }
        client.write_all(&chunk[..length])?;
        client.flush()?;
    }
}
