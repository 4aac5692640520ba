//! A KMS plug-in: the gRPC service `v2.KeyManagementService` on a Unix socket, with AES-256-GCM keys in memory. The test
//! changes its key, lets it fail, and counts its calls.
//!
//! Frames and messages are written here by hand from the `.proto` file of Kubernetes, so that they do not share a mistake with
//! the product.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;
use tokio::sync::oneshot;

/// The annotation that the plug-in adds, and wants to see again.
pub const ANNOTATION: &str = "version.kms.example.org";
/// Its value.
pub const ANNOTATION_VALUE: &[u8] = b"1";

/// What the plug-in does with a call, instead of answering it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// It answers.
    #[default]
    Answers,
    /// It refuses every call with the code UNAVAILABLE.
    Refuses,
    /// It never answers.
    Hangs,
}

/// How often each method was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls of `Status`.
    pub status: usize,
    /// Calls of `Encrypt`.
    pub encrypt: usize,
    /// Calls of `Decrypt`.
    pub decrypt: usize,
}

#[derive(Default)]
struct State {
    /// By key ID. The last one encrypts.
    keys: BTreeMap<String, Vec<u8>>,
    current: String,
    healthz: String,
    version: String,
    /// What `Encrypt` says instead of the current key.
    other_key_id: Option<String>,
    behaviour: Behaviour,
    calls: Calls,
}

/// A plug-in that can be started, stopped and started again with the keys that it has.
pub struct KmsPlugin {
    socket: PathBuf,
    state: Arc<Mutex<State>>,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl KmsPlugin {
    /// A plug-in with one key, which listens on this socket once it is started.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        let plugin = Self { socket: socket.into(), state: Arc::default(), running: None };
        plugin.rotate();
        let mut state = plugin.state();
        "ok".clone_into(&mut state.healthz);
        "v2".clone_into(&mut state.version);
        drop(state);
        plugin
    }

    /// A started plug-in.
    pub fn started(socket: impl Into<PathBuf>) -> Self {
        let mut plugin = Self::new(socket);
        plugin.start();
        plugin
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no call has panicked")
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The endpoint, as a configuration names it.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Listens.
    pub fn start(&mut self) {
        let _ = fs::remove_file(&self.socket);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        let listener = {
            let _inside = runtime.enter();
            UnixListener::bind(&self.socket).expect("the socket is free")
        };
        let (stop, stopped) = oneshot::channel();
        let state = Arc::clone(&self.state);
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, state) => {}
                    _ = stopped => {}
                }
            });
        });
        self.running = Some((stop, thread));
    }

    /// Ends all connections, and listens no longer.
    pub fn stop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            let _ = stop.send(());
            thread.join().expect("the plug-in has not panicked");
            fs::remove_file(&self.socket).expect("the socket is there");
        }
    }

    /// Makes a new key, which encrypts from now on. The old ones still decrypt.
    pub fn rotate(&self) -> String {
        let mut state = self.state();
        let key_id = format!("key-{}", state.keys.len() + 1);
        state.keys.insert(key_id.clone(), random(32));
        state.current.clone_from(&key_id);
        key_id
    }

    /// Forgets a key: what it has encrypted is lost.
    pub fn forget(&self, key_id: &str) {
        self.state().keys.remove(key_id).expect("the key is there");
    }

    /// What `Status` says of the plug-in's health; `ok` at first.
    pub fn says(&self, healthz: &str) {
        healthz.clone_into(&mut self.state().healthz);
    }

    /// What `Status` says of the plug-in's version; `v2` at first.
    pub fn has_version(&self, version: &str) {
        version.clone_into(&mut self.state().version);
    }

    /// Lets `Encrypt` name another key than `Status`.
    pub fn encrypts_as(&self, key_id: Option<&str>) {
        self.state().other_key_id = key_id.map(str::to_owned);
    }

    /// Lets it fail, or not.
    pub fn behaves(&self, behaviour: Behaviour) {
        self.state().behaviour = behaviour;
    }

    /// How often it was called.
    pub fn calls(&self) -> Calls {
        self.state().calls
    }

    /// Decrypts without a call.
    pub fn decrypted(&self, key_id: &str, ciphertext: &[u8]) -> Option<Vec<u8>> {
        self.state().decrypted(key_id, ciphertext)
    }

    /// Encrypts without a call, with the current key: its ID, and the result.
    pub fn encrypted(&self, plaintext: &[u8]) -> (String, Vec<u8>) {
        let state = self.state();
        (state.current.clone(), state.encrypted(plaintext))
    }
}

impl Drop for KmsPlugin {
    fn drop(&mut self) {
        self.stop();
    }
}

fn random(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rand::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

impl State {
    fn key(&self, key_id: &str) -> Option<LessSafeKey> {
        let key = UnboundKey::new(&AES_256_GCM, self.keys.get(key_id)?).expect("32 bytes");
        Some(LessSafeKey::new(key))
    }

    fn encrypted(&self, plaintext: &[u8]) -> Vec<u8> {
        let key = self.key(&self.current).expect("there is a key");
        let nonce: [u8; NONCE_LEN] = random(NONCE_LEN).try_into().expect("the length of a nonce");
        let mut text = plaintext.to_vec();
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut text)
            .expect("it is short");
        [&nonce, text.as_slice()].concat()
    }

    fn decrypted(&self, key_id: &str, ciphertext: &[u8]) -> Option<Vec<u8>> {
        let (nonce, text) = ciphertext.split_first_chunk::<NONCE_LEN>()?;
        let mut text = text.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        Some(self.key(key_id)?.open_in_place(nonce, Aad::empty(), &mut text).ok()?.to_vec())
    }

    /// Answers a call with a message, or with a gRPC code and a text.
    fn answer(&mut self, path: &str, message: &[u8]) -> Result<Vec<u8>, (u8, String)> {
        let refused = |text: &str| Err((13, text.to_owned()));
        let fields = fields(message);
        let field =
            |number: u64| fields.iter().find(|(found, _)| *found == number).map(|(_, value)| &**value);
        match path.strip_prefix("/v2.KeyManagementService/") {
            Some("Status") => self.calls.status += 1,
            Some("Encrypt") => self.calls.encrypt += 1,
            Some("Decrypt") => self.calls.decrypt += 1,
            _ => return Err((12, format!("no method {path}"))),
        }
        if self.behaviour == Behaviour::Refuses {
            return Err((14, "the key is locked away".to_owned()));
        }
        if path.ends_with("Status") {
            let texts = [&self.version, &self.healthz, &self.current];
            return Ok((1..)
                .zip(texts)
                .flat_map(|(number, text)| bytes_field(number, text.as_bytes()))
                .collect());
        }
        // Field 2 of both is the UID.
        let (Some(input), Some(_)) = (field(1), field(2)) else { return refused("a field is missing") };
        if path.ends_with("Encrypt") {
            let key_id = self.other_key_id.as_ref().unwrap_or(&self.current);
            let entry = [bytes_field(1, ANNOTATION.as_bytes()), bytes_field(2, ANNOTATION_VALUE)].concat();
            let parts = [
                bytes_field(1, &self.encrypted(input)),
                bytes_field(2, key_id.as_bytes()),
                bytes_field(3, &entry),
            ];
            return Ok(parts.concat());
        }
        let key_id = field(3).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
        let annotation = field(4).map(self::fields).unwrap_or_default();
        if annotation != [(1, ANNOTATION.as_bytes().to_vec()), (2, ANNOTATION_VALUE.to_vec())] {
            return refused("the annotation is missing");
        }
        match self.decrypted(key_id, input) {
            Some(plaintext) => Ok(bytes_field(1, &plaintext)),
            None => refused("no key decrypts this"),
        }
    }
}

async fn serve(listener: UnixListener, state: Arc<Mutex<State>>) {
    loop {
        let (stream, _) = listener.accept().await.expect("connections can be accepted");
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(move |request| call(request, Arc::clone(&state)));
            // A caller that goes away is no failure.
            let _ = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// One unary call: a frame with a message each way, and the status in the trailers.
async fn call(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
) -> Result<Response<impl Body<Data = Bytes, Error = Infallible>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let is_hanging = state.lock().expect("no call has panicked").behaviour == Behaviour::Hangs;
    if is_hanging {
        return std::future::pending().await;
    }
    let answer = match body.split_first_chunk::<5>() {
        Some(([0, ..], message)) => state.lock().expect("no call has panicked").answer(&path, message),
        _ => Err((13, "no frame, or a compressed one".to_owned())),
    };
    let mut trailers = HeaderMap::new();
    let (code, frame) = match answer {
        Ok(message) => {
            let length = u32::try_from(message.len()).expect("messages are short").to_be_bytes();
            (0, [&[0], length.as_slice(), &message].concat())
        }
        Err((code, text)) => {
            trailers.insert("grpc-message", HeaderValue::from_str(&text).expect("plain text"));
            (code, Vec::new())
        }
    };
    trailers.insert("grpc-status", HeaderValue::from(u16::from(code)));
    let body = Full::new(Bytes::from(frame)).with_trailers(async { Some(Ok(trailers)) });
    let response = Response::builder().header("content-type", "application/grpc").body(body);
    Ok(response.expect("a valid head"))
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A field of protobuf with bytes or a text.
pub fn bytes_field(number: u64, value: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2), &varint(value.len() as u64), value].concat()
}

/// A field of protobuf with a number.
pub fn number_field(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The fields of a protobuf message in their order. A number is returned as its varint.
///
/// # Panics
/// It is no message, or has fields of other types.
pub fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = read_varint(&mut message).expect("a tag");
        let value = match tag & 7 {
            0 => varint(read_varint(&mut message).expect("a number")),
            2 => {
                let length = read_varint(&mut message).expect("a length");
                let (value, rest) = message.split_at(usize::try_from(length).expect("it is short"));
                message = rest;
                value.to_vec()
            }
            other => panic!("fields of type {other} are not expected"),
        };
        found.push((tag >> 3, value));
    }
    found
}
