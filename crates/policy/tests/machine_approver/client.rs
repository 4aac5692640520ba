//! The client path: one request for each rule that passes, and one that does not.

use portcullis_policy::approval::machine::{
    CheckResult, Key, MachineKind, MachinePool, Node, Outcome, Reason, Request, read,
};
use proptest::prelude::*;

use super::support::*;

/// Refused on the client path, in all Machine APIs, after the change and not before.
fn refused(outcome: Outcome, reason: Reason, rule: &str, change: impl Fn(&mut World, &mut Request)) {
    for mut world in World::all() {
        let mut request = client_request();
        assert_eq!(world.decide(&request).outcome, Outcome::Approve);
        change(&mut world, &mut request);
        let verdict = world.decide(&request);
        assert_eq!(
            (verdict.outcome, verdict.reason, verdict.rule),
            (outcome, reason, rule),
            "{}",
            verdict.detail
        );
    }
}

fn held(reason: Reason, rule: &str, change: impl Fn(&mut World, &mut Request)) {
    refused(Outcome::Hold, reason, rule, change);
}

/// Approved on the client path, in all Machine APIs, after the change.
fn approved_with(change: impl Fn(&mut World, &mut Request)) {
    for mut world in World::all() {
        let mut request = client_request();
        change(&mut world, &mut request);
        let verdict = world.decide(&request);
        assert_eq!(
            (verdict.outcome, verdict.reason),
            (Outcome::Approve, Reason::ClientApproved),
            "{verdict:?}"
        );
    }
}

#[test]
fn all_checks_stand_in_the_list_in_their_order_and_attestation_has_its_place_nb_143_nb_95() {
    let evaluation = World::of(MachineKind::OpenShiftV1Beta1).evaluate(&client_request());
    let rules: Vec<_> = evaluation.checks.iter().map(|check| check.rule).collect();
    assert_eq!(
        rules,
        [
            "NB-80", "NB-75", "NB-74", "NB-81", "NB-82", "NB-83", "NB-84", "NB-85", "NB-86", "NB-87",
            "NB-88", "NB-89", "NB-90", "NB-91", "NB-92", "NB-93", "NB-94", "NB-75a", "NB-95"
        ]
    );
    let not_required: Vec<_> =
        evaluation.checks.iter().filter(|c| matches!(c.result, CheckResult::NotRequired(_))).collect();
    assert_eq!(not_required.iter().map(|c| c.rule).collect::<Vec<_>>(), ["NB-95"]);
}

#[test]
fn the_first_check_that_fails_decides_and_the_others_are_told_too() {
    let mut world = World::of(MachineKind::ClusterV1Beta2);
    let mut request = client_request();
    world.machine().is_deleting = true;
    content(&mut request).organizations.clear();
    let evaluation = world.evaluate(&request);
    assert_eq!(evaluation.verdict.rule, "NB-83");
    let failed: Vec<_> = evaluation
        .checks
        .iter()
        .filter(|check| matches!(check.result, CheckResult::Failed(_)))
        .map(|check| check.rule)
        .collect();
    assert_eq!(failed, ["NB-83", "NB-92"]);
}

#[test]
fn a_disabled_approver_holds_nb_81() {
    held(Reason::ClientApprovalDisabled, "NB-81", |world, _| {
        world.set_config("nodeClientCert: {disabled: true}");
    });
    approved_with(|world, _| world.set_config("nodeClientCert: {disabled: false}"));
}

#[test]
fn what_cannot_be_read_is_malformed_nb_82() {
    held(Reason::MalformedRequest, "NB-82", |_, request| request.content = Err("no PEM block".to_owned()));
    held(Reason::MalformedRequest, "NB-82", |_, request| content(request).has_trailing_data = true);
    held(Reason::MalformedRequest, "NB-82", |_, request| content(request).is_sha1 = true);
}

#[test]
fn only_sound_keys_are_taken_nb_82() {
    for key in [Key::Rsa { bits: 2047 }, Key::Rsa { bits: 1024 }] {
        held(Reason::MalformedRequest, "NB-82", |_, request| content(request).key = key);
    }
    for key in
        [Key::P256, Key::P384, Key::P521, Key::Ed25519, Key::Rsa { bits: 2048 }, Key::Rsa { bits: 4096 }]
    {
        approved_with(|_, request| content(request).key = key);
    }
}

#[test]
fn the_organization_is_the_nodes_alone_nb_83() {
    let other: [&[&str]; 6] = [
        &[],
        &["system:masters"],
        &["system:nodes", "system:masters"],
        &["system:nodes", "system:nodes"],
        &["System:nodes"],
        &["system:nodes "],
    ];
    for organizations in other {
        held(Reason::NotKubeletClient, "NB-83", |_, request| {
            content(request).organizations = strings(organizations);
        });
    }
}

#[test]
fn a_client_certificate_has_no_other_names_nb_83() {
    held(Reason::NotKubeletClient, "NB-83", |_, r| content(r).dns = strings(&["worker-0"]));
    held(Reason::NotKubeletClient, "NB-83", |_, r| content(r).email = strings(&["a@example.com"]));
    held(Reason::NotKubeletClient, "NB-83", |_, r| content(r).ip = vec!["10.0.0.10".parse().unwrap()]);
    held(Reason::NotKubeletClient, "NB-83", |_, r| content(r).uri = strings(&["spiffe://a/b"]));
    held(Reason::NotKubeletClient, "NB-83", |_, r| content(r).other_names = 1);
}

#[test]
fn the_common_name_is_a_nodes_nb_83_nb_3() {
    for name in ["", "worker-0", "system:nodes:worker-0", "System:node:worker-0", "system:node"] {
        held(Reason::NotKubeletClient, "NB-83", |_, r| content(r).common_name = name.to_owned());
    }
}

#[test]
fn the_usages_of_a_client_certificate_are_a_set_nb_83_nb_152() {
    let taken: [&[&str]; 5] = [
        &["digital signature", "client auth"],
        &["client auth", "digital signature"],
        &["digital signature", "key encipherment", "client auth"],
        &["client auth", "key encipherment", "digital signature"],
        // The API server refuses repetitions; they add nothing.
        &["client auth", "client auth", "digital signature"],
    ];
    for usages in taken {
        approved_with(|_, request| request.usages = strings(usages));
    }
    let others: [&[&str]; 10] = [
        &[],
        &["client auth"],
        &["digital signature"],
        &["digital signature", "digital signature"],
        &["key encipherment", "client auth"],
        &["digital signature", "server auth"],
        &["digital signature", "client auth", "server auth"],
        &["digital signature", "digital signature", "server auth"],
        &["digital signature", "key encipherment", "client auth", "server auth"],
        &["digital signature", "key encipherment", "client auth", "any"],
    ];
    for usages in others {
        held(Reason::NotKubeletClient, "NB-83", |_, request| request.usages = strings(usages));
    }
}

#[test]
fn only_a_kubelets_extensions_may_be_requested_nb_83() {
    for oid in ["2.5.29.15", "2.5.29.37", "2.5.29.19", "1.3.6.1.4.1.11129.2.1.21"] {
        approved_with(|_, request| content(request).extensions.push(extension(oid)));
    }
    for oid in ["2.5.29.17", "2.5.29.30", "1.2.3.4", ""] {
        held(Reason::NotKubeletClient, "NB-83", |_, r| content(r).extensions.push(extension(oid)));
    }
    held(Reason::NotKubeletClient, "NB-83", |_, request| {
        let mut authority = extension("2.5.29.19");
        authority.is_ca = true;
        content(request).extensions.push(authority);
    });
}

#[test]
fn a_node_that_asks_for_itself_renews_nb_84() {
    held(Reason::ClientRenewal, "NB-84", |_, r| r.username = "system:node:worker-0".to_owned());
}

#[test]
fn only_the_bootstrap_user_may_ask_byte_for_byte_nb_85() {
    for user in [
        "",
        "admin",
        "system:node:worker-1",
        "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper ",
        "system:serviceaccount:openshift-machine-config-operator:Node-bootstrapper",
        "system:serviceaccount:openshift-machine-config-operator",
        "system:serviceaccount:default:node-bootstrapper",
    ] {
        held(Reason::WrongRequester, "NB-85", |_, request| request.username = user.to_owned());
    }
    approved_with(|world, request| {
        world.set_config("bootstrapUsers: ['system:serviceaccount:infra:first-boot']");
        request.username = "system:serviceaccount:infra:first-boot".to_owned();
        let groups = ["system:authenticated", "system:serviceaccounts:infra", "system:serviceaccounts"];
        request.groups = strings(&groups);
    });
    held(Reason::WrongRequester, "NB-85", |world, _| {
        world.set_config("bootstrapUsers: ['system:serviceaccount:infra:first-boot']");
    });
}

#[test]
fn the_groups_of_a_token_are_exactly_three_nb_86_nb_151() {
    let groups = token_groups();
    for missing in 0..groups.len() {
        // Without the group of all service accounts they are those of the bootstrap certificate.
        held(Reason::WrongRequesterGroups, "NB-86", |_, r| {
            r.groups.remove(missing);
        });
    }
    for extra in ["system:masters", "system:nodes", "", "system:serviceaccounts:default"] {
        held(Reason::WrongRequesterGroups, "NB-86", |_, r| r.groups.push(extra.to_owned()));
    }
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        approved_with(|_, r| r.groups = order.iter().map(|i| groups[*i].clone()).collect());
    }
}

#[test]
fn the_groups_of_the_bootstrap_certificate_count_while_its_authority_is_published_nb_86_nb_151() {
    let groups = ["system:serviceaccounts:openshift-machine-config-operator", "system:authenticated"];
    approved_with(|world, request| {
        world.has_bootstrap_ca = true;
        request.groups = strings(&groups);
    });
    held(Reason::WrongRequesterGroups, "NB-86", |_, request| request.groups = strings(&groups));
    for one in groups {
        held(Reason::WrongRequesterGroups, "NB-86", |world, request| {
            world.has_bootstrap_ca = true;
            request.groups = strings(&[one]);
        });
    }
    held(Reason::WrongRequesterGroups, "NB-86", |world, request| {
        world.has_bootstrap_ca = true;
        request.groups = strings(&groups);
        request.groups.push("system:masters".to_owned());
    });
}

#[test]
fn the_name_is_one_that_a_node_can_have_nb_87() {
    for name in ["Worker-0", "worker_0", "worker-0.", "-worker", "a/b", "a b", "system:node:worker-0"] {
        held(Reason::BadNodeName, "NB-87", |_, r| content(r).common_name = format!("system:node:{name}"));
    }
    held(Reason::BadNodeName, "NB-87", |_, r| content(r).common_name = "system:node:".to_owned());
    let long = format!("{}.{}.{}.{}", "a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61));
    assert_eq!(long.len(), 253);
    approved_with(|world, request| {
        content(request).common_name = format!("system:node:{long}");
        world.machine().addresses[0].value.clone_from(&long);
    });
    held(Reason::BadNodeName, "NB-87", |world, request| {
        content(request).common_name = format!("system:node:{long}e");
        world.machine().addresses[0].value = format!("{long}e");
    });
}

#[test]
fn a_node_that_exists_renews_nb_88() {
    held(Reason::NodeAlreadyExists, "NB-88", |world, _| {
        world.node = Ok(Some(Node { name: "worker-0".to_owned(), ..Node::default() }));
    });
    refused(Outcome::Retry, Reason::NodeLookupFailed, "NB-88", |world, _| {
        world.node = Err("503 Service Unavailable".to_owned());
    });
}

#[test]
fn a_machine_has_the_name_as_internal_dns_nb_89() {
    for name in ["worker-0", "WORKER-0", "Worker-0.", "worker-0."] {
        approved_with(|world, _| world.machine().addresses[0].value = name.to_owned());
    }
    refused(Outcome::Retry, Reason::MachineNotFound, "NB-89", |world, _| world.machines = Ok(Vec::new()));
    for name in ["worker-0..", "worker-00", ".worker-0", "", "worker-0 "] {
        refused(Outcome::Retry, Reason::MachineNotFound, "NB-89", |world, _| {
            world.machine().addresses[0].value = name.to_owned();
        });
    }
    refused(Outcome::Retry, Reason::MachineLookupFailed, "NB-89", |world, _| {
        world.machines = Err("connection refused".to_owned());
    });
}

#[test]
fn other_kinds_of_addresses_name_no_node_nb_89() {
    refused(Outcome::Retry, Reason::MachineNotFound, "NB-89", |_, r| {
        content(r).common_name = "system:node:worker-0.example.com".to_owned();
    });
    refused(Outcome::Retry, Reason::MachineNotFound, "NB-89", |_, r| {
        content(r).common_name = "system:node:10.0.0.10".to_owned();
    });
}

#[test]
fn machines_without_internal_dns_are_pointed_out_nb_89() {
    let mut world = World::of(MachineKind::OpenShiftV1Beta1);
    world.machine().addresses.clear();
    let detail = world.decide(&client_request()).detail;
    assert!(
        detail.contains("MachineLacksInternalDNS") && detail.contains("machines/mine-worker-0"),
        "{detail}"
    );
}

#[test]
fn two_machines_with_one_name_are_ambiguous_nb_90() {
    held(Reason::AmbiguousMachine, "NB-90", |world, _| {
        let mut twin = world.machine().clone();
        twin.name = "other".to_owned();
        twin.uid = "other".to_owned();
        twin.provider_id = Some("cloud:///zone/other".to_owned());
        world.machines.as_mut().unwrap().push(twin);
    });
    // The same provider id within one API is a copy, not a migration.
    held(Reason::AmbiguousMachine, "NB-90", |world, _| {
        let mut twin = world.machine().clone();
        twin.uid = "other".to_owned();
        world.machines.as_mut().unwrap().push(twin);
    });
}

#[test]
fn one_machine_in_two_apis_is_one_by_its_provider_id_nb_125() {
    for kind in [MachineKind::ClusterV1Beta1, MachineKind::ClusterV1Beta2] {
        let own =
            || World::with([machine(MachineKind::OpenShiftV1Beta1, &worker()), machine(kind, &worker())]);
        assert_eq!(own().answer(&client_request()).1, Reason::ClientApproved);
        let mut other_id = own();
        other_id.machine().provider_id = Some("cloud:///zone/other".to_owned());
        assert_eq!(other_id.answer(&client_request()), (Outcome::Hold, Reason::AmbiguousMachine, "NB-90"));
        let mut no_id = own();
        no_id.machines.as_mut().unwrap().iter_mut().for_each(|machine| machine.provider_id = None);
        assert_eq!(no_id.answer(&client_request()).1, Reason::AmbiguousMachine);
        // A reason against the node from either of the two counts.
        for side in [0, 1] {
            let mut linked = own();
            linked.machines.as_mut().unwrap()[side].node_ref = Some("worker-0".to_owned());
            assert_eq!(linked.answer(&client_request()).1, Reason::MachineHasNode);
            let mut old = own();
            old.machines.as_mut().unwrap()[side].created = Some(at(-8000));
            assert_eq!(old.answer(&client_request()).1, Reason::OutsideMachineWindow);
        }
    }
}

#[test]
fn a_machine_with_a_node_takes_no_other_nb_91() {
    for node in ["worker-0", "other"] {
        held(Reason::MachineHasNode, "NB-91", |world, _| world.machine().node_ref = Some(node.to_owned()));
    }
}

#[test]
fn a_machine_that_goes_or_failed_takes_no_node_nb_92() {
    held(Reason::MachineNotLive, "NB-92", |world, _| world.machine().is_deleting = true);
    held(Reason::MachineNotLive, "NB-92", |world, _| world.machine().phase = "Failed".to_owned());
    for phase in ["Provisioning", "Provisioned", "Running", "Unknown", ""] {
        approved_with(|world, _| world.machine().phase = phase.to_owned());
    }
}

#[test]
fn the_window_is_open_from_ten_seconds_before_to_two_hours_after_nb_93_nb_99() {
    const WINDOW: i64 = 2 * 60 * 60;
    for seconds in [-9, 0, 1, WINDOW - 1] {
        approved_with(|world, request| {
            request.created = Some(at(seconds));
            world.now = at(seconds.max(0) + 1);
        });
    }
    for seconds in [-10, -11, -100_000, WINDOW, WINDOW + 1, 10 * WINDOW] {
        held(Reason::OutsideMachineWindow, "NB-93", |world, request| {
            request.created = Some(at(seconds));
            world.now = at(seconds.max(0) + 1);
        });
    }
    held(Reason::OutsideMachineWindow, "NB-93", |_, request| request.created = None);
}

#[test]
fn the_window_is_what_the_configuration_says_nb_97() {
    held(Reason::OutsideMachineWindow, "NB-93", |world, request| {
        world.set_config("machineWindow: 5m");
        request.created = Some(at(300));
    });
    approved_with(|world, request| {
        world.set_config("machineWindow: 5m\nmachineClockSkew: 60s");
        request.created = Some(at(-59));
    });
    // The first override that selects the Machine counts, and no other.
    let overrides = "windowOverrides:\n- {selector: {matchLabels: {role: metal}}, window: 24h}\n\
        - {selector: {matchExpressions: [{key: role, operator: Exists}]}, window: 3h}\n\
        - {selector: {}, window: 5m}";
    approved_with(|world, request| {
        world.set_config(overrides);
        request.created = Some(at(3 * 3600 - 1));
        world.now = at(3 * 3600);
    });
    held(Reason::OutsideMachineWindow, "NB-93", |world, request| {
        world.set_config(overrides);
        request.created = Some(at(3 * 3600));
        world.now = at(3 * 3600);
    });
}

#[test]
fn an_identity_goes_to_one_key_nb_94() {
    let earlier = |when: i64, change: fn(&mut Request)| {
        let mut request = client_request();
        request.name = "csr-first".to_owned();
        request.uid = "first".to_owned();
        content(&mut request).key_hash = [2; 32];
        change(&mut request);
        approved(request, at(when))
    };
    held(Reason::IdentityAlreadyGranted, "NB-94", |world, _| world.others = vec![earlier(60, |_| {})]);
    // Issued in the meantime.
    held(Reason::IdentityAlreadyGranted, "NB-94", |world, _| {
        world.others = vec![earlier(60, |request| request.has_certificate = true)];
    });
    // Without a time it counts as now.
    held(Reason::IdentityAlreadyGranted, "NB-94", |world, _| {
        let mut timeless = earlier(60, |request| request.created = None);
        timeless.conditions[0].since = None;
        world.others = vec![timeless];
    });
    let harmless: [fn(&mut Request); 4] = [
        |request| content(request).key_hash = [1; 32],
        |request| content(request).common_name = "system:node:worker-1".to_owned(),
        |request| request.signer_name = SERVING.to_owned(),
        |request| request.signer_name = "example.com/other".to_owned(),
    ];
    for change in harmless {
        approved_with(|world, _| world.others = vec![earlier(60, change)]);
    }
    // A person's approval bars other keys as well.
    held(Reason::IdentityAlreadyGranted, "NB-94", |world, _| {
        let mut by_hand = earlier(60, |_| {});
        by_hand.conditions[0].reason = "KubectlApprove".to_owned();
        world.others = vec![by_hand];
    });
    // An approval of the machine that had the name before, and one of two hours ago, do not.
    approved_with(|world, _| world.others = vec![earlier(-1, |_| {})]);
    approved_with(|world, request| {
        world.others = vec![earlier(10, |_| {})];
        world.now = at(10 + 7200);
        request.created = Some(at(7199));
    });
    held(Reason::IdentityAlreadyGranted, "NB-94", |world, request| {
        world.others = vec![earlier(10, |_| {})];
        world.now = at(10 + 7199);
        request.created = Some(at(7199));
    });
}

#[test]
fn the_member_of_a_pool_has_no_machine_nb_127() {
    let pool = r#"{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachinePool",
        "metadata":{"name":"pool","namespace":"machines"},"spec":{"clusterName":"mine"},
        "status":{"nodeRefs":[{"name":"worker-1"}]}}"#;
    held(Reason::MachineNotFound, "NB-89", |world, request| {
        content(request).common_name = "system:node:worker-1".to_owned();
        world.pools = vec![MachinePool::from_json(pool).unwrap()];
    });
    assert!(read(pool).unwrap().is_some());
}

proptest! {
    #[test]
    fn usages_are_taken_by_the_set_alone_nb_152(
        usages in prop::collection::vec(
            prop::sample::select(vec!["digital signature", "client auth", "key encipherment", "server auth"]), 0..6),
    ) {
        let mut request = client_request();
        request.usages = strings(&usages);
        let has = |usage| usages.contains(&usage);
        let expected = has("digital signature") && has("client auth") && !has("server auth");
        let world = World::of(MachineKind::OpenShiftV1Beta1);
        prop_assert_eq!(world.decide(&request).outcome == Outcome::Approve, expected);
    }
}
