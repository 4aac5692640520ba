//! How machine-approver decides to approve client certificates: the seven rules, each with a request that breaks that
//! one and no other.

use portcullis_policy::approval::machine::{Node, Outcome, Reason, Request};

use super::support::*;

/// Refused, with this reason; and with the one thing put right approved. In all Machine APIs.
fn breaks_only(reason: Reason, rule: &str, change: impl Fn(&mut World, &mut Request)) {
    for world in World::all() {
        let (mut changed, mut request) = (world.clone(), client_request());
        assert_eq!(world.decide(&request).outcome, Outcome::Approve);
        change(&mut changed, &mut request);
        let verdict = changed.decide(&request);
        assert_ne!(verdict.outcome, Outcome::Approve, "{verdict:?}");
        assert_eq!((verdict.reason, verdict.rule), (reason, rule), "{verdict:?}");
    }
}

#[test]
fn rule_1_not_a_well_formed_kubelet_client_certificate() {
    breaks_only(Reason::NotKubeletClient, "NB-83", |_, request| {
        content(request).organizations.push("system:masters".to_owned());
    });
}

#[test]
fn rule_2_a_renewal() {
    // The node asks for itself: also not the bootstrap user, but that is looked at later.
    breaks_only(Reason::ClientRenewal, "NB-84", |_, request| {
        request.username = "system:node:worker-0".to_owned();
        request.groups = strings(&["system:nodes", "system:authenticated"]);
    });
}

#[test]
fn rule_3_not_created_by_the_correct_user() {
    breaks_only(Reason::WrongRequester, "NB-85", |_, request| {
        request.username = "system:serviceaccount:openshift-machine-config-operator:default".to_owned();
    });
}

#[test]
fn rule_4_the_node_resource_already_exists() {
    breaks_only(Reason::NodeAlreadyExists, "NB-88", |world, _| {
        world.node = Ok(Some(Node { name: "worker-0".to_owned(), ..Node::default() }));
    });
}

#[test]
fn rule_5_no_machine_exists_for_the_node() {
    breaks_only(Reason::MachineNotFound, "NB-89", |_, request| {
        content(request).common_name = "system:node:worker-1".to_owned();
    });
}

#[test]
fn rule_6_not_close_to_the_time_at_which_the_machine_was_created() {
    breaks_only(Reason::OutsideMachineWindow, "NB-93", |world, request| {
        request.created = Some(at(3 * 60 * 60));
        world.now = at(3 * 60 * 60 + 5);
    });
}

#[test]
fn rule_7_correct_user_unregistered_node_and_recently_created_machine_is_approved() {
    for world in World::all() {
        assert_eq!(world.answer(&client_request()), (Outcome::Approve, Reason::ClientApproved, "NB-96"));
    }
}
