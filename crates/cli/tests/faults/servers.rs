//! Two processes of `portcullis serve` over three members of etcd, with a network between them that a test can cut.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use portcullis_testkit::etcd::{Cluster, Options};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::killable::Killable;
use portcullis_testkit::ports::ReservedPort;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tcp_proxy::TcpProxy;
use portcullis_testkit::{program, tool, wait};

/// What all servers must have in common.
const KEYS: [&str; 3] = ["ca.crt", "ca.key", "sa.key"];

/// One server. It keeps its port and its data directory when it is started again.
pub(crate) struct Server {
    process: Killable,
    port: ReservedPort,
    data: PathBuf,
    /// The way to each member of etcd.
    links: Vec<TcpProxy>,
}

impl Server {
    fn start(&self) {
        let mut command = program!().serve_command_at(&self.data, self.port.number());
        let urls: Vec<String> = self.links.iter().map(|link| format!("http://{}", link.address())).collect();
        command.arg("--etcd-servers").arg(urls.join(","));
        self.process.run(Running::start(command));
    }

    /// Where it serves.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.number()).into()
    }

    /// Kills it (SIGKILL).
    pub(crate) fn kill(&self) {
        self.process.kill();
    }

    /// Starts it after it was killed, and waits until it serves.
    pub(crate) fn restart(&self) {
        self.start();
    }

    /// Stops it (SIGSTOP).
    pub(crate) fn stop(&self) {
        self.process.stop();
    }

    /// Lets it go on (SIGCONT).
    pub(crate) fn cont(&self) {
        self.process.cont();
    }

    /// The way to a member of etcd.
    pub(crate) fn link(&self, member: usize) -> &TcpProxy {
        &self.links[member]
    }

    /// Cuts it off from all members.
    pub(crate) fn cut_off(&self) {
        self.links.iter().for_each(TcpProxy::cut);
    }

    /// Holds everything that etcd sends to it.
    pub(crate) fn hold_answers(&self) {
        self.links.iter().for_each(TcpProxy::hold_answers);
    }

    /// Ends all cuts.
    pub(crate) fn heal(&self) {
        self.links.iter().for_each(TcpProxy::heal);
    }

    /// Resets all its connections to etcd.
    pub(crate) fn reset(&self) {
        self.links.iter().for_each(TcpProxy::reset);
    }

    /// What it has logged, before it was killed too.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }
}

/// All of it.
pub(crate) struct Servers {
    pub(crate) each: [Server; 2],
    pub(crate) cluster: Cluster,
    folder: Scratch,
    admin: Identity,
}

impl Servers {
    /// Starts etcd and both servers, and waits until they serve.
    pub(crate) fn start(etcd: &Options) -> Self {
        let (cluster, folder) = (Cluster::with(3, etcd), Scratch::new());
        let server = |name: &str| Server {
            process: Killable::new(format!("server {name}")),
            port: ReservedPort::new(),
            data: folder.path().join(name),
            links: cluster
                .members()
                .iter()
                .map(|member| TcpProxy::start((Ipv4Addr::LOCALHOST, member.port())))
                .collect(),
        };
        let each = [server("one"), server("two")];
        each[0].start();
        private_folder(&each[1].data);
        for key in KEYS {
            fs::copy(each[0].data.join(key), each[1].data.join(key)).unwrap();
        }
        each[1].start();
        let admin = Identity::admin(&each[0].data);
        let servers = Self { each, cluster, folder, admin };
        servers.wait_until_ready();
        servers
    }

    /// Where they serve.
    pub(crate) fn addresses(&self) -> [SocketAddr; 2] {
        self.each.each_ref().map(Server::address)
    }

    /// The administrator at each server.
    pub(crate) fn admins(&self) -> [Client; 2] {
        self.addresses().map(|address| Client::new(address, &self.admin))
    }

    /// The administrator at this server.
    pub(crate) fn admin(&self, server: usize) -> Client {
        Client::new(self.each[server].address(), &self.admin)
    }

    /// A node with a certificate of its own. It speaks protobuf, as kubelets do.
    pub(crate) fn node(&self, name: &str) -> [Client; 2] {
        let data = &self.each[0].data;
        let folder = self.folder.path();
        tool::openssl(
            folder,
            &format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 2 -CA {} -CAkey {} -keyout \
                 {name}.key -out {name}.crt -subj /O=system:nodes/CN=system:node:{name} -addext \
                 basicConstraints=critical,CA:FALSE -addext extendedKeyUsage=clientAuth",
                data.join("ca.crt").display(),
                data.join("ca.key").display()
            ),
        );
        let file = |suffix| folder.join(format!("{name}.{suffix}"));
        let identity = Identity::read(&data.join("ca.crt"), &file("crt"), &file("key"));
        self.addresses().map(|address| Client::new(address, &identity).in_protobuf())
    }

    /// Waits until both servers say that they are ready.
    pub(crate) fn wait_until_ready(&self) {
        for mut admin in self.admins() {
            wait::until("a server is ready", || {
                admin.ask("GET", "/readyz", None).is_ok_and(|answer| answer.code == 200)
            });
        }
    }

    /// Compacts etcd to its newest revision.
    pub(crate) fn compact(&self) {
        wait::until_ok("etcd is compacted", || {
            let status = self.cluster.etcdctl(["get", "/", "--limit=1", "--keys-only", "--write-out=json"]);
            let status: serde_json::Value =
                serde_json::from_str(&status.stdout).map_err(|error| error.to_string())?;
            let done = self.cluster.etcdctl(["compact", &status["header"]["revision"].to_string()]);
            if done.code == 0 { Ok(()) } else { Err(done.stderr) }
        });
    }
}

fn private_folder(path: &Path) {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(path).unwrap();
}
