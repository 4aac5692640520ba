//! kubectl commands for workloads.

use crate::kubectl::support::Served;

#[test]
fn workloads_are_created_scaled_and_listed() {
    let served = Served::start(&[]);
    for (line, printed) in [
        ("create deployment web --image=web:1 --replicas=2", "deployment.apps/web created"),
        ("create job once --image=job:1 -- true", "job.batch/once created"),
        ("create cronjob daily --image=job:1 --schedule=@daily -- true", "cronjob.batch/daily created"),
        ("create job now --from=cronjob/daily", "job.batch/now created"),
        ("create quota all --hard=pods=3", "resourcequota/all created"),
        ("create pdb web --selector=app=web --min-available=1", "poddisruptionbudget.policy/web created"),
        ("create priorityclass high --value=7", "priorityclass.scheduling.k8s.io/high created"),
        ("create ingress web --rule=a.example/*=web:80", "ingress.networking.k8s.io/web created"),
        (
            "autoscale deployment web --max=4 --cpu-percent=50",
            "horizontalpodautoscaler.autoscaling/web autoscaled",
        ),
        ("scale deployment web --replicas=3", "deployment.apps/web scaled"),
        ("set image deployment/web web=web:2", "deployment.apps/web image updated"),
        ("rollout restart deployment web", "deployment.apps/web restarted"),
        ("rollout pause deployment web", "deployment.apps/web paused"),
    ] {
        assert_eq!(served.ok(line), printed);
    }
    let columns = |line: &str| {
        let printed = served.ok(&format!("{line} --no-headers"));
        printed.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(columns("get deployment web")[..4], ["web", "0/3", "0", "0"]);
    assert_eq!(columns("get deployment web --subresource=scale")[..3], ["web", "3", "0"]);
    assert_eq!(columns("get job once")[..3], ["once", "Running", "0/1"]);
    assert_eq!(columns("get cj daily")[..5], ["daily", "@daily", "<none>", "False", "0"]);
    assert_eq!(columns("get pdb web")[..4], ["web", "1", "N/A", "0"]);
    assert_eq!(columns("get pc high")[..3], ["high", "7", "false"]);
    assert_eq!(columns("get ing web")[..4], ["web", "<none>", "a.example", "80"]);
    assert_eq!(columns("get hpa web")[1], "Deployment/web");
    let all = served.ok("get all -o name");
    for name in ["deployment.apps/web", "job.batch/once", "cronjob.batch/daily"] {
        assert!(all.lines().any(|line| line == name), "{all}");
    }
    let refused = served.fails("scale deployment web --replicas=5 --current-replicas=1");
    assert!(refused.contains("Expected replicas to be 1, was 3"), "{refused}");
    assert!(served.ok("describe deployment web").contains("25% max unavailable, 25% max surge"));
    assert_eq!(served.ok("delete deployment web"), "deployment.apps \"web\" deleted");
}
