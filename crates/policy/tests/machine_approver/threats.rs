//! The attacks of the threat model that the rules stop, by their numbers.

use portcullis_policy::approval::machine::{
    Config, Intake, MachineKind, Node, Outcome, Reason, SignerPath, intake,
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
                request.uid = number.to_string();
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
                request.username = "system:node:evil".to_owned();
                request.created = Some(at(121 + number));
                request
            })
            .collect();
        let forged = world.others.pop().unwrap();
        assert_eq!(world.answer(&serving_request()).1, Reason::ServingApproved);
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
    world.others = vec![first.clone()];
    assert_eq!(world.answer(&client_request()).0, Outcome::Approve);
    world.others = vec![approved(first, at(130))];
    assert_eq!(world.answer(&client_request()).1, Reason::IdentityAlreadyGranted);
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
