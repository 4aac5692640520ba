//! Signs the certificate requests of nodes, under the rules of Kubernetes. `docs/embedding.md` explains it.
#![allow(clippy::disallowed_methods, reason = "a program prints and reads the clock; the library does not")]

use std::error::Error;
use std::io::Write;
use std::time::{Duration, SystemTime};

use portcullis_pki::usage::Usages;
use portcullis_pki::{CertificateAuthority, Csr, IssuedCertificate, KeyPair, Request, pem};
use portcullis_policy::approval::recognizer::Recognizer;
use portcullis_policy::approval::{Asked, Signer};
use portcullis_policy::{Engine, EngineConfig, Mode, User};

const BINDING: &str = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
    "metadata": {"name": "new-machines-may-become-nodes"},
    "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:bootstrappers"}],
    "roleRef": {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io",
        "name": "system:certificates.k8s.io:certificatesigningrequests:nodeclient"}}"#;
const USAGES: [&str; 2] = ["client auth", "digital signature"];
const HOUR: Duration = Duration::from_secs(3600);

/// Signs a request if its signer accepts it and the requester may have it without being asked.
fn sign(
    (engine, authority): (&Engine, &CertificateAuthority),
    requester: &User,
    request: &[u8],
    now: SystemTime,
) -> Result<String, Box<dyn Error>> {
    let csr = Csr::from_pem(request)?; // It is signed with its own key.
    let organizations = csr.subject().organizations()?;
    let names = csr.names();
    let asked = Asked {
        common_name: csr.subject().common_name()?,
        organizations: &organizations,
        dns_names: names.dns.len(),
        email_addresses: names.email.len(),
        ip_addresses: names.ip.len(),
        uris: names.uri.len(),
        usages: &USAGES,
    };
    let signer = Signer::KubeApiserverClientKubelet;
    signer.check(&asked).map_err(|violation| violation.to_string())?;
    let mut ways = Recognizer::of(Some(signer), &requester.name, &asked);
    if !ways.any(|way| engine.authorize(&way.question(requester)).is_allow()) {
        return Err(format!("{} may not have it without being asked", requester.name).into());
    }
    let certificate = authority.issue_requested(&csr, &Usages::named(USAGES)?, None, HOUR, now)?;
    Ok(pem::encode("CERTIFICATE", &certificate))
}

pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let config = EngineConfig { modes: vec![Mode::Rbac], default_policy: true, ..EngineConfig::default() };
    let engine = Engine::from_json(config, [BINDING])?;
    let now = SystemTime::now();
    let authority = CertificateAuthority::generate("kubernetes-ca", now, 24 * HOUR)?;
    let machine = User::new("system:bootstrap:abcdef", ["system:bootstrappers", "system:authenticated"]);
    let jane = User::new("jane", ["system:authenticated"]);

    let organizations = |group: &str| vec![group.to_owned()];
    let node = Request {
        common_name: "system:node:node-7".into(),
        organizations: organizations("system:nodes"),
        ..Request::default()
    };
    let admin = Request { organizations: organizations("system:masters"), ..node.clone() };
    let key = KeyPair::generate()?; // It stays on the machine.
    for (requester, request) in [(&machine, &node), (&jane, &node), (&machine, &admin)] {
        let request = request.to_pem(&key)?;
        match sign((&engine, &authority), requester, request.as_bytes(), now) {
            Ok(pem) => {
                let issued = IssuedCertificate::from_pem(pem.as_bytes())?;
                writeln!(out, "{}: signed for {}", requester.name, issued.common_name())?;
            }
            Err(why) => writeln!(out, "{}: {why}", requester.name)?,
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout())
}
