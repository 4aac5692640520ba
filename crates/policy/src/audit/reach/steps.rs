//! What the steps of a path mean (AU-62), in words.

/// The title and the meaning of each step, E1 to E31.
pub const STEPS: [(&str, &str); 31] = [
    (
        "Control of a pod on the node",
        "Whoever controls a node controls every pod that runs on it, mirror pods too.",
    ),
    (
        "Token of a service account",
        "The kubelet of a node may ask for tokens of the service accounts of its pods.",
    ),
    (
        "Object that a pod uses",
        "The Node authorizer lets a node read the Secrets, ConfigMaps, claims, volumes and resource claims of its pods.",
    ),
    (
        "Identity of the node",
        "A node acts as the user system:node:NAME in the group system:nodes, with every right that RBAC gives to them.",
    ),
    ("Token kept in a Secret", "The Secret holds a token of a service account that does not expire."),
    (
        "Bootstrap token",
        "The Secret is a valid bootstrap token. Whoever reads it is in the group system:bootstrappers.",
    ),
    (
        "Right to read Secrets",
        "RBAC allows get, list or watch of this Secret. List and watch return values too.",
    ),
    (
        "Right to run commands in pods",
        "RBAC allows create on pods/exec or pods/attach. On servers before 1.35 get is enough.",
    ),
    (
        "Right to change running pods",
        "RBAC allows update or patch of pods or of their ephemeral containers. An image can be replaced or a container added.",
    ),
    (
        "Right to create pods",
        "RBAC allows to create pods, or workloads that create pods, in the namespace. A new pod can use every service account, Secret, ConfigMap and claim there.",
    ),
    (
        "New pod that controls its node",
        "The namespace does not enforce the pod security level baseline or restricted. A new pod can be privileged and control the node that it runs on, if no other admission forbids it.",
    ),
    ("Right to create tokens", "RBAC allows create on serviceaccounts/token for this account."),
    ("Right to impersonate", "RBAC allows to act as this user, group, service account or node."),
    (
        "Every right",
        "The identity holds every verb on every resource of the cluster, or may impersonate the group system:masters.",
    ),
    (
        "Right to give itself every right",
        "RBAC allows to bind a role with every right, or to escalate a role that it has.",
    ),
    (
        "Admin of a namespace",
        "RBAC allows bind or escalate in the namespace. The identity can give itself every right there.",
    ),
    (
        "Right to use the kubelet API",
        "RBAC allows get or create on nodes/proxy. The kubelet then runs commands in every pod of these nodes.",
    ),
    (
        "Right to sign client certificates",
        "RBAC allows to create and approve certificate requests. A certificate can name every user and group except system:masters.",
    ),
    (
        "Right to sign node certificates",
        "RBAC allows to create and approve certificate requests of kubelets. A certificate can name every node.",
    ),
    (
        "Token shown to every kubelet",
        "The service account talks to kubelets with its API token. Every node that it talks to sees the token.",
    ),
    ("Token in the pod", "The pod holds a token of its service account that the API server accepts."),
    (
        "Way out of the container",
        "The pod can leave its container: it is privileged, or has a capability or a path of the host that allows it.",
    ),
    (
        "Right to change nodes",
        "RBAC allows update or patch of nodes. With taints and labels, pods that are created again can be moved to the own node.",
    ),
    (
        "Right to change node status",
        "RBAC allows update or patch of nodes/status. Labels pass through it, so that pods of DaemonSets come to the own node.",
    ),
    (
        "Labels that a node sets itself",
        "The DaemonSet selects nodes only by labels that a kubelet may set on its own node.",
    ),
    (
        "Right to change admission",
        "RBAC allows to write mutating webhooks or mutating policies. They act with the next write of an administrator, so this step is conditional.",
    ),
    (
        "Right to create volumes",
        "RBAC allows to create PersistentVolumes. A new volume for a claim that is in use may name any Secret.",
    ),
    (
        "Right to fill in token Secrets",
        "RBAC allows to write and read Secrets in the namespace. The control plane fills in a token for every service account named there.",
    ),
    (
        "Right to bind pods to nodes",
        "RBAC allows create on pods/binding. Pods that wait for a node can be sent to the own node.",
    ),
    (
        "Right to change pod status",
        "RBAC allows update or patch of pods/status. A resource claim that is named in the status is followed.",
    ),
    (
        "Control plane on the node",
        "The API server, the controller manager or etcd runs on this node. Their keys, or the store, are everything.",
    ),
];
