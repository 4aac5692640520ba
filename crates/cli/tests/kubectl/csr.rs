//! Certificate requests through kubectl.

use crate::kubectl::support::Served;

impl Served {
    /// Files a request, in the words of openssl and of the API.
    fn file(&self, name: &str, subject: &str, signer: &str, usages: &[&str], flags: &str) {
        self.openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key");
        self.openssl(&format!("req -new -key key -out csr -subj {subject}"));
        let request = self.openssl("base64 -A -in csr");
        let usages = usages.join("\", \"");
        let manifest = format!(
            "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: {name}}}\nspec:\n  \
             request: {request}\n  signerName: {signer}\n  usages: [\"{usages}\"]\n  expirationSeconds: 86400\n"
        );
        let done = self.ok_with(&format!("create -f - {flags}"), &manifest);
        assert_eq!(done, format!("certificatesigningrequest.certificates.k8s.io/{name} created"));
    }
}

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

#[test]
fn requests_are_listed_approved_denied_and_described() {
    let served = Served::start(&[]);
    served.file("jane", "/O=team/CN=jane", CLIENT, &["client auth"], "");
    served.file("joe", "/CN=joe", CLIENT, &["client auth"], "");
    let wrong = "kubernetes.io/kubelet-serving";
    served.file("n1", "/CN=system:node:n1/O=system:nodes", wrong, &["digital signature", "server auth"], "");
    let header = ["NAME", "AGE", "SIGNERNAME", "REQUESTOR", "REQUESTEDDURATION", "CONDITION"];
    let table = served.table("get csr");
    assert_eq!(table[0], header);
    let row = |table: &[Vec<String>], name: &str| table.iter().find(|row| row[0] == name).unwrap().clone();
    assert_eq!(row(&table, "jane")[2..], [CLIENT, "kubernetes-admin", "24h", "Pending"]);

    let said = served.ok("certificate approve jane");
    assert_eq!(said, "certificatesigningrequest.certificates.k8s.io/jane approved");
    assert_eq!(served.ok("certificate deny joe"), "certificatesigningrequest.certificates.k8s.io/joe denied");
    served.ok("certificate approve n1");
    served.ok("wait csr/jane --for=jsonpath={.status.certificate} --timeout=60s");
    served.ok("wait csr/n1 --for=condition=Failed --timeout=60s");
    let table = served.table("get csr");
    assert_eq!(row(&table, "jane")[5], "Approved,Issued");
    assert_eq!(row(&table, "joe")[5], "Denied");
    assert_eq!(row(&table, "n1")[5], "Approved,Failed");

    // What kubectl 1.32 knows of a request.
    let described = served.ok("describe csr jane");
    for line in
        ["Requesting User:", "kubernetes-admin", "Signer:", CLIENT, "Status:", "Approved,Issued", "jane"]
    {
        assert!(described.contains(line), "{line}: {described}");
    }
    let reason = served.ok("get csr n1 -o jsonpath={.status.conditions[1].message}");
    assert_eq!(reason, "DNS or IP subjectAltName is required");
    let again = served.fails("certificate approve joe");
    assert!(again.contains("is already Denied"), "{again}");
}

#[test]
fn an_issued_certificate_is_good_for_openssl_and_for_the_server() {
    let served = Served::start(&[]);
    let node = "kubernetes.io/kube-apiserver-client-kubelet";
    served.file("node", "/O=system:nodes/CN=system:node:n1", node, &["digital signature", "client auth"], "");
    // The administrator may have it without being asked (CS-87).
    served.ok("wait csr/node --for=jsonpath={.status.certificate} --timeout=60s");
    assert_eq!(served.ok("get csr node -o jsonpath={.status.conditions[0].reason}"), "AutoApproved");
    let certificate = served.ok("get csr node -o jsonpath={.status.certificate}");
    std::fs::write(served.scratch.path().join("node.b64"), certificate).unwrap();
    served.openssl("base64 -d -A -in node.b64 -out node.crt");
    served.openssl("verify -x509_strict -purpose sslclient -CAfile data/ca.crt node.crt");
    let text = served.openssl("x509 -in node.crt -noout -subject -ext keyUsage,extendedKeyUsage,basicConstraints -nameopt sep_comma_plus");
    for part in [
        "O=system:nodes,CN=system:node:n1",
        "Digital Signature\n",
        "TLS Web Client Authentication\n",
        "CA:FALSE",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let server =
        format!("--kubeconfig=/dev/null --server={} --certificate-authority=data/ca.crt", served.url);
    let who = served.ok(&format!("auth whoami {server} --client-certificate=node.crt --client-key=key"));
    assert!(who.contains("system:node:n1") && who.contains("system:nodes"), "{who}");
}
