//! Real etcd on the loopback interface, one member or several, whose processes a test can kill, pause and start again
//! with the same data.
//!
//! Data, ports and processes belong to the value that started them, and go when it is dropped. If the test fails, the
//! logs of all members are shown. `etcdctl` is the referee: what etcd holds is read with it, not with a client of ours.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::killable::Killable;
use crate::ports::ReservedPort;
use crate::program::Running;
use crate::scratch::Scratch;
use crate::tool::{self, Finished};
use crate::wait;

/// How often a start is tried when another program takes a port first.
const ATTEMPTS: usize = 5;

/// What differs from a plain etcd. The default is one: HTTP, and etcd's own limits.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The size of the database, in bytes, from which on etcd refuses writes. None: etcd's default, 2 GiB.
    pub quota_backend_bytes: Option<u64>,
    /// Clients speak TLS. None: plain HTTP.
    pub client_tls: Option<ClientTls>,
    /// How long members hear nothing from their leader before they elect another. A tenth of it is the heartbeat. None:
    /// etcd's default, 1 s.
    pub election_timeout: Option<Duration>,
}

/// The files of TLS between etcd and its clients. `etcdctl` uses the same certificate as etcd, so that it must be good
/// for servers and for clients.
#[derive(Clone, Debug)]
pub struct ClientTls {
    /// The authority of both sides, PEM.
    pub ca: PathBuf,
    /// The certificate, PEM, for 127.0.0.1.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// Whether clients must have a certificate of the authority.
    pub client_cert_auth: bool,
}

impl ClientTls {
    /// Makes an authority and a certificate in this folder with openssl. Clients must have a certificate; the one made
    /// here is good for them too.
    #[track_caller]
    pub fn make(folder: &Path) -> Self {
        let new = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 2";
        tool::openssl(folder, &format!("req -x509 {new} -keyout ca.key -out ca.crt -subj /CN=etcd-ca"));
        tool::openssl(
            folder,
            &format!(
                "req -x509 {new} -CA ca.crt -CAkey ca.key -keyout etcd.key -out etcd.crt -subj /CN=root \
                 -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=IP:127.0.0.1,DNS:localhost \
                 -addext extendedKeyUsage=serverAuth,clientAuth"
            ),
        );
        let file = |name| folder.join(name);
        Self {
            ca: file("ca.crt"),
            certificate: file("etcd.crt"),
            key: file("etcd.key"),
            client_cert_auth: true,
        }
    }
}

/// One member: its own cluster, or part of a [`Cluster`].
#[derive(Debug)]
pub struct Etcd {
    process: Killable,
    client: ReservedPort,
    peer: ReservedPort,
    options: Options,
    /// The names and peer URLs of all members, as `--initial-cluster` takes them.
    initial_cluster: String,
    folder: Scratch,
}

/// Another program has one of the ports.
#[derive(Debug)]
struct AddressInUse;

impl Etcd {
    /// Starts one member, and waits until it is healthy.
    #[track_caller]
    pub fn start() -> Self {
        Self::with(&Options::default())
    }

    /// As [`Etcd::start`], with options.
    #[track_caller]
    pub fn with(options: &Options) -> Self {
        Cluster::with(1, options).members.remove(0)
    }

    /// A member that was never started.
    fn prepare(index: usize, options: &Options) -> Self {
        Self {
            process: Killable::new(format!("member-{index}")),
            client: ReservedPort::new(),
            peer: ReservedPort::new(),
            options: options.clone(),
            initial_cluster: String::new(),
            folder: Scratch::new(),
        }
    }

    /// The URL for clients.
    pub fn endpoint(&self) -> String {
        let scheme = if self.options.client_tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.client.number())
    }

    /// The port for clients, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.client.number()
    }

    /// The number of its process.
    ///
    /// # Panics
    /// It was killed.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer.number())
    }

    fn spawn(&self) {
        let mut command = clean(tool::command("etcd"));
        command.arg("--name").arg(self.process.name());
        command.arg("--data-dir").arg(self.folder.path().join("data"));
        for flag in ["--listen-client-urls", "--advertise-client-urls"] {
            command.arg(flag).arg(self.endpoint());
        }
        for flag in ["--listen-peer-urls", "--initial-advertise-peer-urls"] {
            command.arg(flag).arg(self.peer_url());
        }
        command.arg("--initial-cluster").arg(&self.initial_cluster);
        command.args(["--logger", "zap", "--log-outputs", "stderr"]);
        if let Some(bytes) = self.options.quota_backend_bytes {
            command.arg("--quota-backend-bytes").arg(bytes.to_string());
        }
        if let Some(timeout) = self.options.election_timeout {
            command.arg("--election-timeout").arg(timeout.as_millis().to_string());
            command.arg("--heartbeat-interval").arg((timeout.as_millis() / 10).to_string());
        }
        if let Some(tls) = &self.options.client_tls {
            command.arg("--trusted-ca-file").arg(&tls.ca);
            command.arg("--cert-file").arg(&tls.certificate).arg("--key-file").arg(&tls.key);
            command.arg(format!("--client-cert-auth={}", tls.client_cert_auth));
        }
        if cfg!(target_arch = "aarch64") {
            // etcd 3.4 does not start there otherwise.
            command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
        }
        self.process.run(Running::spawn(command));
    }

    /// Kills it (SIGKILL), also while it is stopped. Its data stay.
    #[track_caller]
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Stops it (SIGSTOP): its connections stay open and it does not answer, until [`Etcd::cont`].
    #[track_caller]
    pub fn stop(&self) {
        self.process.stop();
    }

    /// Lets it go on after [`Etcd::stop`] (SIGCONT).
    #[track_caller]
    pub fn cont(&self) {
        self.process.cont();
    }

    /// Starts it again with the same data and ports, after killing it if it runs. Does not wait: a member may need
    /// others to become healthy.
    #[track_caller]
    pub fn restart(&self) {
        if self.process.is_running() {
            self.process.kill();
        }
        self.spawn();
    }

    /// Waits until it answers a linearizable read: it has a leader, and a majority of the members is there.
    ///
    /// # Panics
    /// It is not running, or ends meanwhile.
    #[track_caller]
    pub fn wait_until_healthy(&self) {
        self.wait_until_healthy_or_refused().expect("its ports are free");
    }

    #[track_caller]
    fn wait_until_healthy_or_refused(&self) -> Result<(), AddressInUse> {
        wait::until_some(&format!("{} of etcd is healthy", self.process.name()), || {
            // etcdctl waits long for a server that does not listen yet.
            let listens = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port())).is_ok();
            let is_healthy = listens && self.etcdctl(["endpoint", "health"]).code == 0;
            if self.process.has_ended() {
                let log = self.process.log();
                assert!(log.contains("address already in use"), "etcd has ended:\n{log}");
                return Some(Err(AddressInUse));
            }
            is_healthy.then_some(Ok(()))
        })
    }

    /// Runs `etcdctl` (API version 3) against this member.
    #[track_caller]
    pub fn etcdctl<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Finished {
        etcdctl(&self.endpoint(), self.options.client_tls.as_ref(), arguments)
    }

    /// Writes a key with any bytes.
    #[track_caller]
    pub fn put(&self, key: &str, value: &[u8]) {
        let folder = Scratch::new();
        let file = folder.path().join("value");
        std::fs::write(&file, value).expect("a file for the value");
        let mut command = etcdctl_command(&self.endpoint(), self.options.client_tls.as_ref());
        command.args(["put", key]);
        // Without a value among its arguments, etcdctl reads it from its standard input.
        let output = command.stdin(std::fs::File::open(&file).expect("the value")).output().expect("etcdctl");
        assert!(output.status.success(), "{key}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The keys below a prefix.
    #[track_caller]
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let found = self.etcdctl(["get", "--prefix", prefix, "--keys-only"]);
        assert_eq!(found.code, 0, "{}", found.stderr);
        found.stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// The value of a key; none if there is no such key.
    #[track_caller]
    pub fn value(&self, key: &str) -> Option<Vec<u8>> {
        // As JSON with base64: a value can be any bytes.
        let found = self.etcdctl(["get", key, "--write-out", "json"]);
        assert_eq!(found.code, 0, "{}", found.stderr);
        let answer: Value = serde_json::from_str(&found.stdout).expect("JSON of etcdctl");
        let kv = answer.get("kvs")?.get(0)?;
        let value = kv.get("value").and_then(Value::as_str).unwrap_or_default();
        Some(BASE64_STANDARD.decode(value).expect("base64 of etcdctl"))
    }

    /// Its term, if it believes that it is the leader.
    fn term_as_leader(&self) -> Option<u64> {
        let answer = self.etcdctl(["endpoint", "status", "--write-out", "json"]);
        let answer: Value = serde_json::from_str(&answer.stdout).ok()?;
        let status = answer.get(0)?.get("Status")?;
        let header = status.get("header")?;
        let (leader, own) = (status.get("leader")?.as_u64()?, header.get("member_id")?.as_u64()?);
        (leader == own).then(|| header.get("raft_term").and_then(Value::as_u64)).flatten()
    }

    /// The log of the process that runs, and of those before.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

/// A fault that a cluster of three survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGKILL of any member, which is started again.
    MemberKilled,
    /// SIGSTOP of any member, and SIGCONT.
    MemberStopped,
    /// SIGKILL of the leader.
    LeaderKilled,
    /// SIGSTOP of the leader.
    LeaderStopped,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 4] =
        [Self::MemberKilled, Self::MemberStopped, Self::LeaderKilled, Self::LeaderStopped];
}

/// Several members that elect a leader. Their indices are 0, 1, ...
#[derive(Debug)]
pub struct Cluster {
    members: Vec<Etcd>,
}

impl Cluster {
    /// Starts this many members, and waits until all are healthy.
    #[track_caller]
    pub fn start(size: usize) -> Self {
        Self::with(size, &Options::default())
    }

    /// As [`Cluster::start`], with options.
    ///
    /// # Panics
    /// etcd does not start, or `etcd` (Debian package etcd-server) or `etcdctl` (etcd-client) is missing.
    #[track_caller]
    pub fn with(size: usize, options: &Options) -> Self {
        for _ in 0..ATTEMPTS {
            let mut members: Vec<Etcd> = (0..size).map(|index| Etcd::prepare(index, options)).collect();
            let urls: Vec<_> =
                members.iter().map(|m| format!("{}={}", m.process.name(), m.peer_url())).collect();
            for member in &mut members {
                member.initial_cluster = urls.join(",");
                member.spawn();
            }
            if members.iter().all(|member| member.wait_until_healthy_or_refused().is_ok()) {
                return Self { members };
            }
        }
        panic!("etcd found its ports taken {ATTEMPTS} times");
    }

    /// A member.
    #[track_caller]
    pub fn member(&self, index: usize) -> &Etcd {
        &self.members[index]
    }

    /// All members.
    pub fn members(&self) -> &[Etcd] {
        &self.members
    }

    /// The URLs for clients of all members, also of those that are killed.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(Etcd::endpoint).collect()
    }

    /// Waits until one of the members that are neither killed nor stopped is the leader, and returns its index.
    #[track_caller]
    pub fn leader(&self) -> usize {
        wait::until_some("etcd has a leader", || {
            let active = self.members.iter().enumerate().filter(|(_, member)| member.process.is_active());
            // One that lost its majority may take itself for the leader still. The later term is right.
            active.filter_map(|(index, member)| Some((member.term_as_leader()?, index))).max()
        })
        .1
    }

    /// Makes a fault, ends it after this time, and waits until all is well again. The index is that of the member, unless
    /// the fault is one of the leader.
    #[track_caller]
    pub fn suffer(&self, fault: Fault, index: usize, lasts: Duration) {
        let member = match fault {
            Fault::MemberKilled | Fault::MemberStopped => self.member(index),
            Fault::LeaderKilled | Fault::LeaderStopped => self.member(self.leader()),
        };
        match fault {
            Fault::MemberKilled | Fault::LeaderKilled => {
                member.kill();
                std::thread::sleep(lasts);
                member.restart();
            }
            Fault::MemberStopped | Fault::LeaderStopped => {
                member.stop();
                std::thread::sleep(lasts);
                member.cont();
            }
        }
        self.wait_until_healthy();
    }

    /// Waits until all members that are neither killed nor stopped are healthy.
    #[track_caller]
    pub fn wait_until_healthy(&self) {
        self.members.iter().filter(|member| member.process.is_active()).for_each(Etcd::wait_until_healthy);
    }

    /// Runs `etcdctl` (API version 3) against all members: it uses one that answers.
    #[track_caller]
    pub fn etcdctl<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Finished {
        let tls = self.members.first().and_then(|member| member.options.client_tls.as_ref());
        etcdctl(&self.endpoints().join(","), tls, arguments)
    }
}

#[track_caller]
fn etcdctl<S: AsRef<OsStr>>(
    endpoints: &str,
    tls: Option<&ClientTls>,
    arguments: impl IntoIterator<Item = S>,
) -> Finished {
    Finished::of(etcdctl_command(endpoints, tls).args(arguments))
}

fn etcdctl_command(endpoints: &str, tls: Option<&ClientTls>) -> Command {
    let mut command = clean(tool::command("etcdctl"));
    command.env("ETCDCTL_API", "3").arg("--endpoints").arg(endpoints);
    if let Some(tls) = tls {
        command.arg("--cacert").arg(&tls.ca).arg("--cert").arg(&tls.certificate).arg("--key").arg(&tls.key);
    }
    command
}

/// Both programs take every flag from the environment too.
fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD")) {
        command.env_remove(name);
    }
    command
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_that_is_taken_is_told_from_other_reasons_to_end() {
        let mut etcd = Etcd::prepare(0, &Options::default());
        etcd.initial_cluster = format!("{}={}", etcd.process.name(), etcd.peer_url());
        let _other = TcpListener::bind(("127.0.0.1", etcd.peer.number())).unwrap();
        etcd.spawn();
        etcd.wait_until_healthy_or_refused().unwrap_err();
    }

    #[test]
    #[should_panic(expected = "etcd has ended")]
    fn another_reason_to_end_fails_the_test_with_the_log() {
        let etcd = Etcd::prepare(0, &Options::default());
        // Without members in the initial cluster etcd does not start.
        etcd.spawn();
        let _ = etcd.wait_until_healthy_or_refused();
    }
}
