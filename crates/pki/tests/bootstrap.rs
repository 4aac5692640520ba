//! Bootstrap credentials, checked with openssl (NB-10 to NB-15).
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "runs openssl on files, today")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::time::{Duration, SystemTime};

use portcullis_pki::cert::KnownAuthority;
use portcullis_pki::{KeyPair, bootstrap, pem};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool;

const USER: &str = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";
const GROUP: &str = "system:serviceaccounts:openshift-machine-config-operator";

struct Folder(Scratch);

impl Folder {
    fn openssl(&self, words: &str) -> Result<String, String> {
        let finished = tool::try_openssl(self.0.path(), words);
        if finished.code == 0 { Ok(finished.stdout) } else { Err(finished.stderr + &finished.stdout) }
    }
}

fn written() -> (Folder, bootstrap::Credential) {
    let folder = Folder(Scratch::new());
    let credential = bootstrap::sign_once(USER, &[GROUP.to_owned()], SystemTime::now()).unwrap();
    folder.0.write("ca.crt", &credential.authority_pem);
    folder.0.write("client.crt", &credential.certificate_pem);
    folder.0.write("client.key", &credential.key_pem);
    (folder, credential)
}

#[test]
fn openssl_accepts_the_chain_for_clients_and_for_nothing_else_nb_10_nb_15() {
    let (folder, _) = written();
    folder.openssl("verify -x509_strict -CAfile ca.crt -purpose sslclient client.crt").unwrap();
    folder.openssl("verify -CAfile ca.crt -purpose sslserver client.crt").unwrap_err();
    let name = |file: &str, what: &str| {
        folder.openssl(&format!("x509 -in {file} -noout -{what} -nameopt sep_comma_plus")).unwrap()
    };
    assert_eq!(
        name("ca.crt", "subject").trim(),
        "subject=OU=openshift,CN=kubelet-bootstrap-kubeconfig-signer"
    );
    assert_eq!(name("client.crt", "subject").trim(), format!("subject=O={GROUP},CN={USER}"));
    assert_eq!(
        name("client.crt", "issuer").trim(),
        "issuer=OU=openshift,CN=kubelet-bootstrap-kubeconfig-signer"
    );
    let signer = folder.openssl("x509 -in ca.crt -noout -text").unwrap();
    assert!(signer.contains("CA:TRUE\n"), "{signer}");
    assert!(signer.contains("Digital Signature, Key Encipherment, Certificate Sign\n"), "{signer}");
    let leaf = folder.openssl("x509 -in client.crt -noout -text").unwrap();
    assert!(leaf.contains("CA:FALSE") && leaf.contains("TLS Web Client Authentication\n"), "{leaf}");
    assert!(!leaf.contains("Server Authentication") && !leaf.contains("Alternative Name"), "{leaf}");
    assert_eq!(
        folder.openssl("pkey -in client.key -pubout").unwrap(),
        folder.openssl("x509 -in client.crt -noout -pubkey").unwrap()
    );
}

#[test]
fn both_certificates_are_valid_for_ten_years_nb_11() {
    let (folder, _) = written();
    for file in ["ca.crt", "client.crt"] {
        for (days, ends) in [(3649, false), (3651, true)] {
            let seconds = days * 24 * 60 * 60;
            let checked = folder.openssl(&format!("x509 -in {file} -noout -checkend {seconds}"));
            assert_eq!(checked.is_err(), ends, "{file} after {days} days");
        }
    }
}

#[test]
fn nothing_that_is_returned_holds_the_signers_key_nb_12() {
    let (_folder, credential) = written();
    let all =
        [&credential.authority_pem, &credential.certificate_pem, &credential.key_pem].map(String::as_str);
    let blocks = pem::blocks(all.concat().as_bytes());
    let labels: Vec<&str> = blocks.iter().map(|block| block.label.as_str()).collect();
    assert_eq!(labels, ["CERTIFICATE", "CERTIFICATE", "PRIVATE KEY"]);
    // The one key is the client's.
    let key = KeyPair::from_pem(credential.key_pem.as_bytes()).unwrap();
    let known = |pem: &str| KnownAuthority::read(pem::first(pem.as_bytes()).unwrap().der).unwrap();
    let (signer, client) = (known(&credential.authority_pem), known(&credential.certificate_pem));
    assert_eq!(portcullis_pki::sha256(key.public_der()), client.key_digest());
    assert_ne!(client.key_digest(), signer.key_digest());
    assert!(!format!("{credential:?}").contains("PRIVATE"));
    assert!(signer.not_after() > SystemTime::now() + Duration::from_secs(3649 * 24 * 60 * 60));
    assert_eq!(signer.common_name(), bootstrap::SIGNER);
}

#[test]
fn two_credentials_share_nothing() {
    let (one, two) = (written().1, written().1);
    assert_ne!(one.authority_pem, two.authority_pem);
    assert_ne!(one.key_pem, two.key_pem);
}
