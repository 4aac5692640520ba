//! Users without administrator rights.

use portcullis_testkit::program;
use portcullis_testkit::tool::Finished;

use crate::kubectl::support::Served;

#[test]
fn a_user_with_a_token_gets_what_is_granted_and_kubectls_words_for_the_rest() {
    let scratch = portcullis_testkit::scratch::Scratch::new();
    let tokens = scratch.write("tokens.csv", "jane-token,jane,7,\"readers,writers\"\n");
    let served = Served::start(&["--token-auth-file", tokens.to_str().unwrap()]);
    // Her kubeconfig has her token, and no certificate of the administrator's.
    served.ok("config set-credentials jane --token=jane-token");
    served.ok("config set-context jane --cluster=portcullis --user=jane");
    let who = served.ok("--context jane auth whoami");
    for text in ["jane", "[readers writers system:authenticated]"] {
        assert!(who.contains(text), "{who}");
    }
    let forbidden = |what: &str| {
        format!("Error from server (Forbidden): {what} in API group \"\" in the namespace \"default\"")
    };
    assert_eq!(
        served.fails("--context jane get pods"),
        forbidden("pods is forbidden: User \"jane\" cannot list resource \"pods\"")
    );
    assert_eq!(
        served.fails("--context jane get secret key"),
        forbidden("secrets \"key\" is forbidden: User \"jane\" cannot get resource \"secrets\"")
    );
    assert_eq!(
        served.fails("--context jane get nodes"),
        "Error from server (Forbidden): nodes is forbidden: User \"jane\" cannot list resource \"nodes\" in API group \"\" \
         at the cluster scope"
    );
    let no = served.kubectl("--context jane auth can-i create pods");
    assert_eq!((no.code, no.stdout.trim_end()), (1, "no"));
    assert!(served.ok("--context jane api-versions").contains("rbac.authorization.k8s.io/v1"));

    served.ok("create rolebinding readers --clusterrole=view --group=readers");
    assert_eq!(served.kubectl("--context jane get pods").code, 0);
    assert_eq!(served.ok("--context jane auth can-i get configmaps"), "yes");
    assert!(served.fails("--context jane get secrets").contains("(Forbidden)"), "view grants no secrets");
    // Nobody grants themselves more.
    let escalation =
        served.fails("--context jane create rolebinding mine --clusterrole=cluster-admin --user=jane");
    let refusal = "rolebindings.rbac.authorization.k8s.io is forbidden: User \"jane\" cannot create resource";
    assert!(escalation.contains(refusal), "{escalation}");

    served.ok("config set-credentials nobody --token=wrong");
    served.ok("config set-context nobody --cluster=portcullis --user=nobody");
    let unknown = served.fails("--context nobody get pods");
    assert!(unknown.ends_with("error: You must be logged in to the server (Unauthorized)"), "{unknown}");
}

#[test]
fn admission_plugins_are_switched_off_by_name_and_by_nothing_else_nr_1() {
    let label = "--as system:node:n --as-group system:nodes label node n node-role.kubernetes.io/x=y";
    let served = Served::start(&["--enable-admission-plugins=NodeRestriction,Priority"]);
    let node = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}"#;
    assert_eq!(served.kubectl_with("create -f -", node).code, 0);
    assert!(served.fails(label).contains("(Forbidden)"));
    let served = served.restart(&["--disable-admission-plugins=NodeRestriction"]);
    assert_eq!(served.ok(label), "node/n labeled");
    drop(served);
    for (flag, fault) in [
        ("--enable-admission-plugins=AlwaysPullImages", "AlwaysPullImages is not implemented here"),
        ("--enable-admission-plugins=Nothing", "unknown plugin \"Nothing\""),
        ("--disable-admission-plugins=noderestriction", "unknown plugin \"noderestriction\""),
    ] {
        let Finished { code, stderr, .. } = program!().run(["serve", flag]);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(fault), "{stderr}");
    }
}
