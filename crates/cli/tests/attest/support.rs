//! A cluster that attests its nodes, and machines with TPMs.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::software_tpm::{Manufacturer, SoftwareTpm};
use portcullis_testkit::tool::certificate_end;
pub(crate) use portcullis_testkit::tool::{Finished, openssl};
use portcullis_testkit::wait;
use serde_json::{Value, json};

pub(crate) const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// The bootstrap token, and the groups of kubeadm's tokens.
const TOKEN: &str = "abcdef.0123456789abcdef";
const OTHER_TOKEN: &str = "fedcba.0123456789abcdef";
const TOKEN_USER: &str = "system:bootstrap:abcdef";
const TOKEN_GROUPS: &str = "system:bootstrappers,system:bootstrappers:kubeadm:default-node-token";
/// What the operator asks of TPMs, unless a test says otherwise.
pub(crate) const TPM: &str = "authorizedAttestors: [tpm]\ntpm:\n  trust: cert\n  roots: root.pem\n  \
    intermediates: issuer.pem\n  requireCreation: true\n  pcrs: {mode: record, selection: [0, 1, 2, 3, 4, 7]}\n";

pub(crate) struct Cluster {
    pub(crate) scratch: Scratch,
    served: Option<Running>,
    pub(crate) address: SocketAddr,
}

impl Cluster {
    /// A server that attests nodes. `rules` is the configuration without the machines, which are in the inventory.
    pub(crate) fn start(rules: &str, inventory: &str) -> Self {
        Self::with(rules, inventory, &["--approver", "attested", "--approver-config", "attest.yaml"])
    }

    /// A server on which nobody approves.
    pub(crate) fn alone(rules: &str, inventory: &str) -> Self {
        Self::with(rules, inventory, &["--approver", "none"])
    }

    /// A server that attests nodes with TPMs of this manufacturer.
    pub(crate) fn trusting(rules: &str, inventory: &str, manufacturer: &Manufacturer) -> Self {
        let scratch = Scratch::new();
        Self::trust(scratch.path(), manufacturer);
        Self::within(
            scratch,
            rules,
            inventory,
            &["--approver", "attested", "--approver-config", "attest.yaml"],
        )
    }

    /// A controller of its own, for a server on which nobody approves.
    pub(crate) fn controller(&self, flags: &[&str]) -> Running {
        self.controller_as(&self.path("data/admin.kubeconfig"), flags)
    }

    /// As [`Self::controller`], with this kubeconfig.
    pub(crate) fn controller_as(&self, kubeconfig: &Path, flags: &[&str]) -> Running {
        let authority = [self.path("data/ca.crt"), self.path("data/ca.key")];
        self.run_controller(kubeconfig, &authority, flags)
    }

    /// As [`Self::controller`], with this authority.
    pub(crate) fn controller_of(&self, certificate: &Path, key: &Path, flags: &[&str]) -> Running {
        let authority = [certificate.to_owned(), key.to_owned()];
        self.run_controller(&self.path("data/admin.kubeconfig"), &authority, flags)
    }

    fn run_controller(&self, kubeconfig: &Path, authority: &[PathBuf; 2], flags: &[&str]) -> Running {
        let mut command = program!().command(["attest", "--config"]);
        command.arg(self.path("attest.yaml")).arg("--kubeconfig").arg(kubeconfig);
        command.arg("--cluster-signing-cert-file").arg(&authority[0]);
        command.arg("--cluster-signing-key-file").arg(&authority[1]).args(flags);
        Running::spawn(command)
    }

    /// Somebody with the bootstrap token.
    pub(crate) fn bootstrapper(&self) -> Client {
        Client::new(self.address, &Identity::with_token(&self.path("data/ca.crt"), TOKEN))
    }

    /// Somebody with another bootstrap token.
    pub(crate) fn other_bootstrapper(&self) -> Client {
        Client::new(self.address, &Identity::with_token(&self.path("data/ca.crt"), OTHER_TOKEN))
    }

    fn with(rules: &str, inventory: &str, flags: &[&str]) -> Self {
        Self::within(Scratch::new(), rules, inventory, flags)
    }

    fn within(scratch: Scratch, rules: &str, inventory: &str, flags: &[&str]) -> Self {
        let tokens = format!(
            "{TOKEN},{TOKEN_USER},1,\"{TOKEN_GROUPS}\"\n{OTHER_TOKEN},system:bootstrap:fedcba,2,\"{TOKEN_GROUPS}\"\n"
        );
        scratch.write("tokens.csv", tokens);
        let cluster = Self { scratch, served: None, address: "127.0.0.1:1".parse().unwrap() };
        cluster.configure(rules, inventory);
        let served = cluster.serve(flags);
        let address = served.address();
        let cluster = Self { served: Some(served), address, ..cluster };
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'https://{address}', \
             certificate-authority: data/ca.crt}}}}]\nusers: [{{name: u, user: {{token: {TOKEN}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        if flags.contains(&"none") {
            let binding = json!({"metadata": {"name": "bootstrap"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                    "name": "system:node-bootstrapper"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group",
                    "name": "system:bootstrappers"}]});
            let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
            cluster.admin().must(201, "POST", path, Some(&binding));
        }
        let path = cluster.scratch.write("bootstrap.kubeconfig", kubeconfig);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        cluster
    }

    /// Writes the configuration and the inventory.
    pub(crate) fn configure(&self, rules: &str, inventory: &str) {
        self.scratch.write("inventory.yaml", format!("machines:\n{inventory}"));
        self.scratch.write("attest.yaml", format!("{rules}machines: {{inventory: inventory.yaml}}\n"));
    }

    /// Puts the authorities of a manufacturer beside the configuration.
    pub(crate) fn trust(folder: &Path, manufacturer: &Manufacturer) {
        fs::copy(manufacturer.root(), folder.join("root.pem")).unwrap();
        fs::copy(manufacturer.issuer(), folder.join("issuer.pem")).unwrap();
    }

    fn serve(&self, flags: &[&str]) -> Running {
        let mut command = program!().serve_command(&self.path("data"));
        command.current_dir(self.scratch.path()).arg("--token-auth-file").arg("tokens.csv").args(flags);
        Running::start(command)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn admin(&self) -> Client {
        Client::new(self.address, &Identity::admin(&self.path("data")))
    }

    pub(crate) fn log(&self) -> String {
        self.served.as_ref().unwrap().log()
    }

    /// The requests that nodes have made.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.admin().must(200, "GET", REQUESTS, None)["items"].as_array().unwrap().clone()
    }

    /// Waits until a request is denied or failed, and returns the reason.
    pub(crate) fn refusal(&self, name: &str) -> String {
        let mut admin = self.admin();
        wait::until_some("the request is refused", || {
            let csr = admin.must(200, "GET", &format!("{REQUESTS}/{name}"), None);
            let conditions = csr["status"]["conditions"].as_array()?;
            let refused = conditions.iter().find(|c| c["type"] == "Denied" || c["type"] == "Failed")?;
            Some(refused["reason"].as_str()?.to_owned())
        })
    }

    /// Creates what these manifests have. Returns a kubeconfig of their service account.
    pub(crate) fn deploy(&self, manifests: &[&str]) -> PathBuf {
        let admin = self.path("data/admin.kubeconfig");
        let folder = portcullis_testkit::recorded::repository().join("deploy/attest");
        for file in ["../namespace.yaml"].iter().chain(manifests) {
            let mut kubectl = portcullis_testkit::tool::command("kubectl");
            kubectl.arg("--kubeconfig").arg(&admin).args(["create", "--validate=strict", "-f"]);
            Finished::of(kubectl.arg(folder.join(file))).ok();
        }
        let user = "    as: system:serviceaccount:portcullis:portcullis-attest\n    as-groups: \
            [system:serviceaccounts, 'system:serviceaccounts:portcullis', system:authenticated]\n";
        let text = fs::read_to_string(&admin).unwrap();
        let text = text.replace("  user:\n", &format!("  user:\n{user}"));
        assert!(text.contains("as-groups"), "{text}");
        self.scratch.write("deployed.kubeconfig", text)
    }

    /// `portcullis attest` with these words, and the admin's kubeconfig.
    pub(crate) fn attest(&self, words: &[&str]) -> Finished {
        let mut command = program!().command(["attest"]);
        command.args(words).arg("--kubeconfig").arg(self.path("data/admin.kubeconfig"));
        Finished::of(&mut command)
    }

    /// The plugin for a machine, with its files in a folder of its own.
    pub(crate) fn credential(&self, machine: &Machine<'_>, flags: &[&str]) -> Command {
        let mut command = program!().command(["credential", "--node-name", machine.name, "--provider-id"]);
        command.arg(format!("metal://{}", machine.name)).arg("--bootstrap-kubeconfig");
        command.arg(self.path("bootstrap.kubeconfig")).arg("--cache-dir").arg(self.path(machine.cache));
        command.args(machine.flags()).args(flags);
        if !flags.contains(&"--attestation-wait") {
            command.args(["--attestation-wait", "60s"]);
        }
        command.env_remove("KUBERNETES_EXEC_INFO");
        command
    }

    pub(crate) fn run(&self, machine: &Machine<'_>, flags: &[&str]) -> Finished {
        Finished::of(&mut self.credential(machine, flags))
    }

    /// What an openssl of its own says about the certificate of a machine: the cluster vouches for it, and it is for the
    /// node.
    #[track_caller]
    pub(crate) fn openssl_accepts(&self, machine: &Machine<'_>) -> String {
        let certificate = self.path(machine.cache).join("current/client.crt");
        let (certificate, folder) = (certificate.to_str().unwrap(), self.scratch.path());
        openssl(folder, &format!("verify -purpose sslclient -CAfile data/ca.crt {certificate}"));
        let subject = openssl(folder, &format!("x509 -in {certificate} -noout -subject -nameopt RFC2253"));
        assert_eq!(subject.trim(), format!("subject=CN=system:node:{},O=system:nodes", machine.name));
        openssl(folder, &format!("x509 -in {certificate} -noout -text"))
    }

    /// When the certificate in a cache expires, by openssl, in RFC 3339.
    pub(crate) fn openssl_end(&self, cache: &str) -> String {
        certificate_end(&self.path(cache).join("current/client.crt"))
    }
}

/// A machine, which may have a TPM.
#[derive(Clone, Copy)]
pub(crate) struct Machine<'a> {
    /// The name of its node.
    pub(crate) name: &'a str,
    /// The folder of its cache.
    pub(crate) cache: &'a str,
    pub(crate) tpm: Option<&'a SoftwareTpm>,
}

impl<'a> Machine<'a> {
    pub(crate) fn with_tpm(name: &'a str, tpm: &'a SoftwareTpm) -> Self {
        Self { name, cache: name, tpm: Some(tpm) }
    }

    fn flags(&self) -> Vec<String> {
        match self.tpm {
            Some(tpm) => ["--attestor", "tpm", "--tpm", &tpm.connection()].map(str::to_owned).into(),
            None => Vec::new(),
        }
    }
}

/// The inventory entry of a machine.
pub(crate) fn entry(name: &str, more: &str) -> String {
    format!("- {{nodeName: {name}, providerID: 'metal://{name}'{more}}}\n")
}

/// The digest of a chip's RSA endorsement key, as tpm2-tools and openssl compute it.
pub(crate) fn ek_digest(manufacturer: &Manufacturer, tpm: &SoftwareTpm) -> String {
    let folder = manufacturer.folder();
    tpm.tool(folder, "tpm2_readpublic -c 0x81010001 -f der -o ek-spki.der");
    let digest = openssl(folder, "dgst -sha256 -r ek-spki.der");
    format!("sha256:{}", digest.split_whitespace().next().unwrap())
}

/// The one JSON line of a failure, with this exit code.
#[track_caller]
pub(crate) fn failed(done: &Finished, code: i32) -> Value {
    assert_eq!(done.code, code, "{done:#?}");
    assert_eq!(done.stdout, "", "nothing is handed out");
    let line = done.stderr.lines().last().unwrap();
    let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    assert_eq!((&line["event"], &line["exitCode"]), (&json!("failed"), &json!(code)));
    line
}
