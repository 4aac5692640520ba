//! The attacks of the threat model that the rules stop, by their numbers.

use portcullis_policy::approval::machine::{
    Config, Intake, MachineKind, Node, Outcome, Reason, Request, SignerPath, Unreadable, intake,
};

use super::support::*;

fn control_plane_node() -> World {
    let mut world = linked(MachineKind::OpenShiftV1Beta1);
    world.machine().created = Some(at(-1_000_000));
    world
}

#[test]
fn stolen_bootstrap_credential_cannot_register_an_arbitrary_name_t1() {
    for world in World::all() {
        let mut request = client_request();
        content(&mut request).common_name = "system:node:attacker".to_owned();
        assert_eq!(world.answer(&request).1, Reason::MachineNotFound);
    }
}

#[test]
fn stolen_bootstrap_credential_cannot_hijack_a_control_plane_node_t2() {
    let mut world = control_plane_node();
    assert_eq!(world.answer(&client_request()), (Outcome::Hold, Reason::NodeAlreadyExists, "NB-88"));
    // Nor while the Node object is gone for a moment.
    world.node = Ok(None);
    assert_eq!(world.answer(&client_request()), (Outcome::Hold, Reason::MachineHasNode, "NB-91"));
    // Nor when the link is lost as well.
    world.machine().node_ref = None;
    assert_eq!(world.answer(&client_request()), (Outcome::Hold, Reason::OutsideMachineWindow, "NB-93"));
    // Nor beside the certificate that the machine itself got a minute ago.
    let mut world = World::of(MachineKind::OpenShiftV1Beta1);
    let mut own = client_request();
    own.uid = "own".to_owned();
    content(&mut own).key_hash = [7; 32];
    world.others = vec![approved(own, at(60))];
    assert_eq!(world.answer(&client_request()), (Outcome::Hold, Reason::IdentityAlreadyGranted, "NB-94"));
}

#[test]
fn requests_filed_before_a_scale_up_never_qualify_t3() {
    for mut world in World::all() {
        for age in [10, 11, 60, 3600, 23 * 3600] {
            let mut request = client_request();
            request.created = Some(at(-age));
            for later in [0, 60, 7199] {
                world.now = at(later);
                assert_eq!(world.answer(&request).1, Reason::OutsideMachineWindow);
            }
        }
    }
}

#[test]
fn a_flood_of_made_up_names_does_not_starve_real_machines_t4() {
    for mut world in World::all() {
        world.others = (0..20_000)
            .map(|number| {
                let mut request = client_request();
                request.name = number.to_string();
                content(&mut request).common_name = format!("system:node:flood-{number}");
                request
            })
            .collect();
        let flood = world.others.pop().unwrap();
        assert_eq!(world.answer(&client_request()).1, Reason::ClientApproved);
        assert_eq!(world.answer(&flood), (Outcome::Hold, Reason::PendingLimit, "NB-80"));
    }
}

#[test]
fn a_node_cannot_supersede_or_crowd_out_the_requests_of_another_t5() {
    for mut world in MachineKind::ALL.map(linked) {
        world.others = (0..50)
            .map(|number| {
                let mut request = serving_request();
                request.name = format!("evil-{number}");
                request.username = "system:node:evil".to_owned();
                request.created = Some(at(121 + number));
                request
            })
            .collect();
        let forged = world.others.pop().unwrap();
        assert_eq!(world.answer(&serving_request()).1, Reason::ServingApproved);
        assert_eq!(world.answer(&forged).1, Reason::PendingLimit);
        world.others.clear();
        assert_eq!(world.answer(&forged), (Outcome::Hold, Reason::CommonNameMismatch, "NB-105"));
    }
}

#[test]
fn no_further_organization_comes_into_a_certificate_t6() {
    for organizations in [&["system:nodes", "system:masters"][..], &["system:masters", "system:nodes"]] {
        let (mut client, mut serving) = (client_request(), serving_request());
        content(&mut client).organizations = strings(organizations);
        content(&mut serving).organizations = strings(organizations);
        assert_eq!(World::of(MachineKind::ClusterV1Beta1).answer(&client).1, Reason::NotKubeletClient);
        assert_eq!(linked(MachineKind::ClusterV1Beta1).answer(&serving).1, Reason::WrongOrganization);
    }
}

#[test]
fn a_serving_certificate_is_no_client_certificate_however_usages_are_counted_t7() {
    for usages in [
        &["digital signature", "server auth", "client auth"][..],
        &["digital signature", "digital signature", "client auth"],
        &["server auth", "client auth", "client auth"],
    ] {
        let mut request = serving_request();
        request.usages = strings(usages);
        assert_eq!(linked(MachineKind::ClusterV1Beta2).answer(&request).1, Reason::WrongUsages);
    }
}

#[test]
fn a_node_gets_no_certificate_for_the_names_of_another_t8() {
    for kind in MachineKind::ALL {
        let mut world = linked(kind);
        let mut other = world.machine().clone();
        other.name = "other".to_owned();
        other.uid = "other".to_owned();
        other.node_ref = Some("worker-1".to_owned());
        other.addresses[0].value = "worker-1".to_owned();
        other.addresses[4].value = "10.0.0.11".to_owned();
        world.machines.as_mut().unwrap().push(other);
        let mut by_ip = serving_request();
        content(&mut by_ip).ip.push("10.0.0.11".parse().unwrap());
        assert_eq!(world.answer(&by_ip).1, Reason::SANNotOwned);
        let mut by_name = serving_request();
        content(&mut by_name).dns.push("worker-1".to_owned());
        assert_eq!(world.answer(&by_name).1, Reason::SANNotOwned);
    }
}

#[test]
fn names_and_addresses_are_both_checked_whichever_is_alone_t9() {
    let world = linked(MachineKind::OpenShiftV1Beta1);
    let mut dns_only = serving_request();
    content(&mut dns_only).ip.clear();
    assert_eq!(world.answer(&dns_only).0, Outcome::Approve);
    content(&mut dns_only).dns = strings(&["worker-1"]);
    assert_eq!(world.answer(&dns_only).1, Reason::SANNotOwned);
    let mut ip_only = serving_request();
    content(&mut ip_only).dns.clear();
    assert_eq!(world.answer(&ip_only).0, Outcome::Approve);
    content(&mut ip_only).ip = vec!["10.0.0.11".parse().unwrap()];
    assert_eq!(world.answer(&ip_only).1, Reason::SANNotOwned);
    let mut neither = serving_request();
    content(&mut neither).dns.clear();
    content(&mut neither).ip.clear();
    assert_eq!(world.answer(&neither).1, Reason::ForbiddenSAN);
}

#[test]
fn no_node_becomes_the_api_server_t10() {
    for name in ["kubernetes", "kubernetes.default.svc", "api.mine.example.com", "localhost"] {
        let mut world = linked(MachineKind::OpenShiftV1Beta1);
        world.api_server_names = strings(&["api.mine.example.com"]);
        // Even when somebody wrote the name into the Machine.
        world.machine().addresses[1].value = name.to_owned();
        let mut request = serving_request();
        content(&mut request).dns.push(name.to_owned());
        assert_eq!(world.answer(&request).1, Reason::ForbiddenSAN, "{name}");
    }
}

#[test]
fn a_node_that_lies_in_its_own_status_owns_nothing_more_t11() {
    let mut world = linked(MachineKind::ClusterV1Beta2);
    world.node = Ok(Some(Node {
        name: "worker-0".to_owned(),
        internal_ips: strings(&["10.0.0.66"]),
        kubelet_port: 10250,
    }));
    let mut request = serving_request();
    content(&mut request).ip = vec!["10.0.0.66".parse().unwrap()];
    assert_eq!(world.answer(&request).1, Reason::SANNotOwned);
}

#[test]
fn requests_for_foreign_signers_are_never_evaluated_t12() {
    for signer in
        ["example.com/signer", "kubernetes.io/kube-apiserver-client", "kubernetes.io/kubelet-serving/"]
    {
        let mut request = client_request();
        request.signer_name = signer.to_owned();
        assert!(matches!(intake(&request, &Config::default()), Intake::Ignored(_)));
        assert_eq!(SignerPath::of(signer), None, "without a path nothing can be evaluated");
    }
}

#[test]
fn of_two_simultaneous_requests_the_second_key_gets_nothing_t14() {
    let mut world = World::of(MachineKind::ClusterV1Beta1);
    let mut first = client_request();
    first.uid = "first".to_owned();
    content(&mut first).key_hash = [3; 32];
    world.others = vec![approved(first, at(130))];
    assert_eq!(world.answer(&client_request()).1, Reason::IdentityAlreadyGranted);
}

/// A request for the same name by a thief of the bootstrap credential, with another key.
fn thief(number: u8, seconds: i64) -> Request {
    let mut request = client_request();
    request.name = format!("csr-thief-{number}");
    request.uid = request.name.clone();
    request.created = Some(at(seconds));
    content(&mut request).key_hash = [200 + number; 32];
    request
}

#[test]
fn a_thief_who_asks_second_gets_nothing_and_both_are_held_t5_nb_75a() {
    for mode in ["never", "superseded", "strict"] {
        for seconds in [100, 120, 125] {
            let mut world = World::of(MachineKind::ClusterV1Beta1);
            world.set_config(&format!("denyMode: {mode}"));
            let (own, thief) = (client_request(), thief(1, seconds));
            let contested = (Outcome::Hold, Reason::ContestedIdentity, "NB-75a");
            world.others = vec![thief.clone()];
            assert_eq!(world.answer(&own), contested, "{mode} {seconds}");
            world.others = vec![own.clone()];
            assert_eq!(world.answer(&thief), contested, "{mode} {seconds}");
            // One is gone.
            world.others = Vec::new();
            assert_eq!(world.answer(&own).1, Reason::ClientApproved);
        }
    }
}

#[test]
fn a_token_and_a_bootstrap_certificate_contest_each_other_while_its_authority_is_published_nb_75a_nb_86() {
    let mut world = World::of(MachineKind::OpenShiftV1Beta1);
    let mut thief = thief(1, 100);
    thief.groups.retain(|group| group != "system:serviceaccounts");
    world.others = vec![thief];
    for (is_published, reason) in [(true, Reason::ContestedIdentity), (false, Reason::ClientApproved)] {
        world.has_bootstrap_ca = is_published;
        assert_eq!(world.answer(&client_request()).1, reason);
    }
}

#[test]
fn a_person_who_approves_one_of_two_keys_has_refused_the_other_nb_75a_nb_94() {
    let mut world = World::of(MachineKind::OpenShiftV1Beta1);
    let mut own = approved(client_request(), at(140));
    own.conditions[0].reason = "KubectlApprove".to_owned();
    world.others = vec![own];
    assert_eq!(world.answer(&thief(1, 125)), (Outcome::Hold, Reason::IdentityAlreadyGranted, "NB-94"));
}

#[test]
fn requests_that_fail_their_own_checks_neither_supersede_nor_contest_t5_nb_75() {
    let own = client_request();
    let mut hostile: Vec<Request> = Vec::new();
    // With the key of the machine (its request can be read) and with another one.
    for key in [1_u8, 66] {
        let mut with = |change: &dyn Fn(&mut Request)| {
            let mut request = thief(u8::try_from(hostile.len()).unwrap(), 125);
            content(&mut request).key_hash = [key; 32];
            change(&mut request);
            hostile.push(request);
        };
        with(&|r| content(r).organizations.push("system:masters".to_owned()));
        with(&|r| content(r).other_attributes = 1);
        with(&|r| content(r).has_trailing_data = true);
        with(&|r| r.usages.push("server auth".to_owned()));
        with(&|r| content(r).dns.push("worker-0".to_owned()));
        with(&|r| r.groups.push("more".to_owned()));
        with(&|r| {
            r.groups =
                strings(&["system:serviceaccounts:openshift-machine-config-operator", "system:authenticated"])
        });
        with(&|r| r.created = Some(at(-10)));
        with(&|r| r.created = Some(at(7200)));
        with(&|r| r.signer_name = SERVING.to_owned());
        with(&|r| r.username = "system:serviceaccount:other:other".to_owned());
    }
    for other in &hostile {
        let mut world = World::of(MachineKind::OpenShiftV1Beta1);
        world.others = vec![other.clone()];
        assert_eq!(world.answer(&own), (Outcome::Approve, Reason::ClientApproved, "NB-96"), "{other:?}");
    }
    // Nor all together.
    let mut world = World::of(MachineKind::OpenShiftV1Beta1);
    world.others = hostile;
    assert_eq!(world.answer(&own), (Outcome::Approve, Reason::ClientApproved, "NB-96"));
}

#[test]
fn a_flood_of_one_name_does_not_push_out_the_machine_t5_nb_74() {
    // Asked for ahead of time, with a thousand keys; then malformed, in great number.
    let mut world = World::of(MachineKind::OpenShiftV1Beta1);
    for number in 0..1000_i64 {
        let mut early = thief(0, -3000 + number);
        let mut late = thief(0, 121 + number % 60);
        for (request, kind) in [(&mut early, "early"), (&mut late, "late")] {
            request.name = format!("{kind}-{number}");
            content(request).key_hash = [u8::try_from(2 + number % 250).unwrap(); 32];
        }
        content(&mut late).has_trailing_data = true;
        world.others.extend([early, late]);
    }
    assert_eq!(world.answer(&client_request()), (Outcome::Approve, Reason::ClientApproved, "NB-96"));
    let late = world.others.pop().unwrap();
    assert_eq!(world.answer(&late), (Outcome::Hold, Reason::PendingLimit, "NB-74"));
}

#[test]
fn a_node_renews_with_a_new_key_and_only_it_supersedes_itself_nb_75() {
    for mut world in MachineKind::ALL.map(linked) {
        let mut newer = serving_request();
        newer.name = "csr-newer".to_owned();
        newer.created = Some(at(121));
        content(&mut newer).key_hash = [9; 32];
        world.others = vec![newer.clone()];
        assert_eq!(world.answer(&serving_request()).1, Reason::Superseded);
        // One that fails its own checks does not.
        content(&mut world.others[0]).uri = strings(&["spiffe://a"]);
        assert_eq!(world.answer(&serving_request()).1, Reason::ServingApproved);
        newer.username = "system:node:evil".to_owned();
        world.others = vec![newer];
        assert_eq!(world.answer(&serving_request()).1, Reason::ServingApproved);
    }
}

#[test]
fn a_subject_with_more_than_one_name_and_the_organization_is_refused_nb_83_nb_105() {
    let (mut client, mut serving) = (client_request(), serving_request());
    content(&mut client).other_attributes = 1;
    content(&mut serving).other_attributes = 1;
    let refused = (Outcome::Hold, Reason::NotKubeletClient, "NB-83");
    assert_eq!(World::of(MachineKind::ClusterV1Beta1).answer(&client), refused);
    let refused = (Outcome::Hold, Reason::CommonNameMismatch, "NB-105");
    assert_eq!(linked(MachineKind::ClusterV1Beta1).answer(&serving), refused);
}

#[test]
fn a_machine_that_cannot_be_read_is_not_absent_nb_89_nb_114() {
    let unreadable = |texts: &[&str]| vec![Unreadable::new("ns/broken".to_owned(), strings(texts))];
    for mut world in World::all() {
        // One that may have the name, and one of which nothing is known.
        for texts in [&["x", "Worker-0."][..], &[]] {
            world.unreadable = unreadable(texts);
            assert_eq!(world.answer(&client_request()).1, Reason::MachineUnreadable, "{texts:?}");
        }
        // One of another name does not stop this machine, but then no name is known to be absent.
        world.unreadable = unreadable(&["worker-9"]);
        assert_eq!(world.answer(&client_request()).1, Reason::ClientApproved);
        world.machines = Ok(Vec::new());
        let answer = world.answer(&client_request());
        assert_eq!((answer.0, answer.1), (Outcome::Retry, Reason::MachineUnreadable));
        // Its name does not count as one that nobody knows.
        world.others = (0..150)
            .map(|number| {
                let mut request = thief(0, 125);
                request.name = format!("flood-{number}");
                content(&mut request).common_name = format!("system:node:flood-{number}");
                request
            })
            .collect();
        let mut its = client_request();
        content(&mut its).common_name = "system:node:worker-9".to_owned();
        assert_eq!(world.answer(&its).1, Reason::MachineUnreadable);
        assert_eq!(world.answer(&client_request()).1, Reason::PendingLimit);
        // Without any list of Machines none does.
        world.machines = Err("403 Forbidden".to_owned());
        let answer = world.answer(&client_request());
        assert_eq!((answer.0, answer.1), (Outcome::Retry, Reason::MachineLookupFailed));
    }
    for mut world in MachineKind::ALL.map(linked) {
        world.machines = Ok(Vec::new());
        world.unreadable = unreadable(&["worker-0"]);
        let answer = world.answer(&serving_request());
        assert_eq!((answer.0, answer.1), (Outcome::Retry, Reason::MachineUnreadable));
    }
}

#[test]
fn the_time_here_neither_widens_nor_narrows_the_window_t17() {
    let mut late = client_request();
    late.created = Some(at(3 * 3600));
    for now in [-100_000, 0, 130, 100_000] {
        let mut world = World::of(MachineKind::OpenShiftV1Beta1);
        world.now = at(now);
        assert_eq!(world.answer(&late).1, Reason::OutsideMachineWindow);
        assert_eq!(world.answer(&client_request()).1, Reason::ClientApproved);
    }
    assert!(Config::parse("machineClockSkew: 61s", yaml).is_err());
}

#[test]
fn another_nodes_certificate_on_the_line_renews_nothing_t18() {
    let mut world = linked(MachineKind::OpenShiftV1Beta1);
    world.machines = Ok(Vec::new());
    let mut other = leaf();
    other.common_name = "system:node:worker-1".to_owned();
    world.current = Ok(other);
    assert_ne!(world.answer(&serving_request()).0, Outcome::Approve);
}

#[test]
fn no_authority_and_no_unknown_extension_is_smuggled_in_t19() {
    let mut authority = extension("2.5.29.19");
    authority.is_ca = true;
    for smuggled in [authority, extension("2.5.29.30"), extension("1.2.3.4.5")] {
        let (mut client, mut serving) = (client_request(), serving_request());
        content(&mut client).extensions.push(smuggled.clone());
        content(&mut serving).extensions.push(smuggled);
        assert_eq!(World::of(MachineKind::ClusterV1Beta1).answer(&client).1, Reason::NotKubeletClient);
        assert_eq!(linked(MachineKind::ClusterV1Beta1).answer(&serving).1, Reason::ForbiddenExtension);
    }
}

#[test]
fn what_follows_the_request_is_refused_t20() {
    let (mut client, mut serving) = (client_request(), serving_request());
    content(&mut client).has_trailing_data = true;
    content(&mut serving).has_trailing_data = true;
    assert_eq!(World::of(MachineKind::ClusterV1Beta1).answer(&client).1, Reason::MalformedRequest);
    assert_eq!(linked(MachineKind::ClusterV1Beta1).answer(&serving).1, Reason::MalformedRequest);
}

#[test]
fn the_machine_of_another_cluster_gives_nobody_an_identity_t21() {
    for kind in [MachineKind::ClusterV1Beta1, MachineKind::ClusterV1Beta2] {
        let mut world = World::of(kind);
        world.machine().cluster_name = "theirs".to_owned();
        assert_eq!(world.answer(&client_request()).1, Reason::MachineNotFound);
        let mut world = linked(kind);
        world.machine().cluster_name = "theirs".to_owned();
        assert_eq!(world.answer(&serving_request()).1, Reason::NodeRefPending);
    }
}

#[test]
fn a_name_that_differs_by_case_or_dot_does_not_pick_a_machine_t22() {
    for twin in ["WORKER-0", "worker-0.", "Worker-0."] {
        let mut world = World::of(MachineKind::OpenShiftV1Beta1);
        let mut other = world.machine().clone();
        other.uid = "other".to_owned();
        other.addresses[0].value = twin.to_owned();
        world.machines.as_mut().unwrap().push(other);
        assert_eq!(world.answer(&client_request()).1, Reason::AmbiguousMachine, "{twin}");
    }
    for name in ["WORKER-0", "worker-0."] {
        let mut request = client_request();
        content(&mut request).common_name = format!("system:node:{name}");
        assert_eq!(World::of(MachineKind::OpenShiftV1Beta1).answer(&request).1, Reason::BadNodeName);
    }
}
