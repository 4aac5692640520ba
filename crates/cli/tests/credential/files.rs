//! Damaged files, and files that others can read.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::credential::support::*;

#[test]
fn nobody_else_can_read_a_key_whatever_the_umask_is() {
    for umask in ["0", "0777"] {
        let cluster = Cluster::start();
        fs::create_dir(cluster.path("pki")).unwrap();
        let before = format!("umask {umask};");
        cluster.run(&before, &["--once", "--wait", "0"]).must(3, &[]);
        assert_eq!(mode(&cluster.path("pki/kubelet-client.key.tmp")), 0o600, "{umask}");
        let _signer = Signer::start(&cluster);
        cluster.run(&before, &["--once", "--wait", "60"]).must(0, &[]);
        for entry in fs::read_dir(cluster.path("pki")).unwrap().map(|entry| entry.unwrap().path()) {
            assert_eq!(mode(&entry) & 0o077, 0, "{umask}: {}", entry.display());
        }
        assert_eq!(mode(&cluster.path("node.kubeconfig")), 0o600, "{umask}");
    }
}

#[test]
fn cs_131_a_key_that_cannot_be_read_is_an_error_and_no_request_is_made() {
    let cluster = Cluster::start();
    fs::create_dir(cluster.path("pki")).unwrap();
    let key = cluster.path("pki/kubelet-client.key.tmp");
    let keyfile = key.to_str().unwrap();
    for bad in ["", "junk", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
        fs::write(&key, bad).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        cluster.once().must(2, &[keyfile, "remove it"]);
        assert_eq!(fs::read_to_string(&key).unwrap(), bad, "it is left as evidence");
    }
    fs::remove_file(&key).unwrap();
    // One that others could read is none.
    tool("openssl", ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", keyfile]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    cluster.once().must(2, &[keyfile, "others may read"]);
    assert_eq!(cluster.requests().len(), 0);
    // One that somebody else made, of another kind, is as good as ours (CS-131).
    fs::remove_file(&key).unwrap();
    tool("openssl", ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", keyfile]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let _signer = Signer::start(&cluster);
    cluster.once().must(0, &[]);
    assert_eq!(cluster.requests()[0]["spec"]["usages"][0], "key encipherment");
    openssl_accepts(&cluster, &cluster.path("pki/kubelet-client-current.pem"));
}

#[test]
fn cs_111_a_file_where_a_link_belongs_is_an_error_before_anybody_is_asked() {
    for name in ["kubelet-client-current.pem", "kubelet-client-updated.pem"] {
        let cluster = Cluster::start();
        let path = cluster.scratch.write(&format!("pki/{name}"), "");
        cluster.once().must(2, &[path.to_str().unwrap()]);
        assert_eq!(cluster.requests().len(), 0);
        assert_eq!(fs::read(&path).unwrap(), b"");
    }
}

#[test]
fn cs_112_a_link_that_was_not_renamed_in_time_is_the_current_one() {
    let cluster = Cluster::start();
    let signer = Signer::start(&cluster);
    cluster.once().must(0, &[]);
    drop(signer);
    let (current, updated) =
        (cluster.path("pki/kubelet-client-current.pem"), cluster.path("pki/kubelet-client-updated.pem"));
    fs::rename(&current, &updated).unwrap();
    cluster.once().must(0, &[]);
    assert!(current.exists() && !updated.exists());
    assert_eq!(cluster.requests().len(), 1);
}

#[test]
fn links_that_others_have_put_there_lead_nowhere() {
    let cluster = Cluster::start();
    let victim = cluster.scratch.write("victim", "precious");
    let pki = cluster.path("pki");
    fs::create_dir(&pki).unwrap();
    // Where the key is written, and where it is read.
    symlink(&victim, pki.join("kubelet-client.key.tmp.new")).unwrap();
    symlink(&victim, pki.join("kubelet-client.key.tmp")).unwrap();
    cluster.once().must(2, &["kubelet-client.key.tmp", "remove it"]);
    fs::remove_file(pki.join("kubelet-client.key.tmp")).unwrap();
    // Where the lock is.
    fs::remove_file(pki.join("kubelet-client.lock")).unwrap();
    symlink(&victim, pki.join("kubelet-client.lock")).unwrap();
    cluster.once().must(2, &["kubelet-client.lock"]);
    fs::remove_file(pki.join("kubelet-client.lock")).unwrap();
    assert_eq!(cluster.requests().len(), 0);
    // Where the kubeconfig is written, and where the next pairs will be.
    symlink(&victim, cluster.path("node.kubeconfig.new")).unwrap();
    symlink(&victim, pki.join("kubelet-client.pem.new")).unwrap();
    let now: i64 = tool("date", ["+%s"]).trim().parse().unwrap();
    for second in 0..30 {
        let date = tool("date", ["-u", "-d", &format!("@{}", now + second), "+%Y-%m-%d-%H-%M-%S"]);
        let pair = format!("kubelet-client-{}.pem", date.trim());
        symlink(&victim, pki.join(pair)).unwrap();
    }
    let _signer = Signer::start(&cluster);
    cluster.once().must(0, &[]);
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    let pair = fs::read_link(pki.join("kubelet-client-current.pem")).unwrap();
    assert!(fs::symlink_metadata(&pair).unwrap().is_file());
    openssl_accepts(&cluster, &pair);
}

#[test]
fn a_directory_that_everybody_may_write_to_is_refused() {
    let cluster = Cluster::start();
    fs::create_dir(cluster.path("pki")).unwrap();
    fs::set_permissions(cluster.path("pki"), fs::Permissions::from_mode(0o777)).unwrap();
    cluster.once().must(2, &["everybody may write", "chmod o-w"]);
    let file = cluster.scratch.write("file", "");
    cluster.run("", &["--cert-dir", file.to_str().unwrap()]).must(2, &[]);
    assert_eq!(cluster.requests().len(), 0);
}

#[test]
fn nb_18_a_bootstrap_credential_is_not_for_everybody_and_goes_when_it_is_not_needed() {
    let cluster = Cluster::start();
    let _signer = Signer::start(&cluster);
    let bootstrap = cluster.path("bootstrap.kubeconfig");
    fs::set_permissions(&bootstrap, fs::Permissions::from_mode(0o604)).unwrap();
    cluster.once().must(2, &["everybody", "chmod 0600"]);
    assert_eq!(cluster.requests().len(), 0);
    fs::set_permissions(&bootstrap, fs::Permissions::from_mode(0o600)).unwrap();
    cluster.run("", &["--once", "--rebootstrap=false"]).must(0, &[]);
    assert!(!bootstrap.exists());
    cluster.once().must(0, &[]);
}

#[test]
fn a_lock_that_is_held_is_an_error_that_names_the_holder_and_no_matter_to_who_has_a_certificate() {
    let cluster = Cluster::start();
    fs::create_dir(cluster.path("pki")).unwrap();
    fs::write(cluster.path("pki/kubelet-client.lock"), "4711\n").unwrap();
    let lock = File::open(cluster.path("pki/kubelet-client.lock")).unwrap();
    lock.lock().unwrap();
    cluster.once().must(3, &["process 4711", "kubelet-client.lock"]);
    cluster.run("", &[]).must(3, &["process 4711"]);
    assert_eq!(cluster.requests().len(), 0);
    lock.unlock().unwrap();
    let _signer = Signer::start(&cluster);
    cluster.once().must(0, &[]);
    lock.lock().unwrap();
    cluster.once().must(0, &[]);
}

#[test]
fn cs_130_a_kubeconfig_that_is_no_good_is_written_anew() {
    let cluster = Cluster::start();
    let _signer = Signer::start(&cluster);
    cluster.once().must(0, &[]);
    let good = fs::read_to_string(cluster.path("node.kubeconfig")).unwrap();
    for bad in ["", "{", "users: []", &good.replace("current-context", "x"), &good.replace("client-key", "x")]
    {
        cluster.scratch.write("node.kubeconfig", bad);
        cluster.once().must(0, &[]);
        assert_eq!(fs::read_to_string(cluster.path("node.kubeconfig")).unwrap(), good, "{bad}");
    }
    assert_eq!(cluster.requests().len(), 1);
    // One that cannot be read is not written over.
    fs::remove_file(cluster.path("node.kubeconfig")).unwrap();
    fs::create_dir(cluster.path("node.kubeconfig")).unwrap();
    cluster.once().must(2, &["node.kubeconfig"]);
}
