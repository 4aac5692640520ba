//! Schemas of persistent volumes.

use crate::schema::Shape::{Bool, Int32, List, Map, Object, Quantity, Text, Time};
use crate::schema::core::references::{NODE_SELECTOR, OBJECT_REFERENCE, SECRET_REFERENCE};
use crate::schema::core::volume::{
    AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE, AZURE_DISK_VOLUME_SOURCE, FC_VOLUME_SOURCE, FLOCKER_VOLUME_SOURCE,
    GCE_PERSISTENT_DISK_VOLUME_SOURCE, HOST_PATH_VOLUME_SOURCE, NFS_VOLUME_SOURCE,
    PHOTON_PERSISTENT_DISK_VOLUME_SOURCE, PORTWORX_VOLUME_SOURCE, QUOBYTE_VOLUME_SOURCE,
    VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
};
use crate::schema::table::{always, or_null, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "core/v1";
    PersistentVolume PERSISTENT_VOLUME object {
        always("spec", 2, Object(&PERSISTENT_VOLUME_SPEC)),
        always("status", 3, Object(&PERSISTENT_VOLUME_STATUS)),
    }
    PersistentVolumeSpec PERSISTENT_VOLUME_SPEC {
        unless_zero("capacity", 1, Map(&Quantity)),
        when_set("gcePersistentDisk", 1, Object(&GCE_PERSISTENT_DISK_VOLUME_SOURCE)).within(&[2]),
        when_set("awsElasticBlockStore", 2, Object(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)).within(&[2]),
        when_set("hostPath", 3, Object(&HOST_PATH_VOLUME_SOURCE)).within(&[2]),
        when_set("glusterfs", 4, Object(&GLUSTERFS_PERSISTENT_VOLUME_SOURCE)).within(&[2]),
        when_set("nfs", 5, Object(&NFS_VOLUME_SOURCE)).within(&[2]),
        when_set("rbd", 6, Object(&RBD_PERSISTENT_VOLUME_SOURCE)).within(&[2]),
        when_set("iscsi", 7, Object(&ISCSI_PERSISTENT_VOLUME_SOURCE)).within(&[2]),
        when_set("cinder", 8, Object(&CINDER_PERSISTENT_VOLUME_SOURCE)).within(&[2]),
        when_set("cephfs", 9, Object(&CEPH_FS_PERSISTENT_VOLUME_SOURCE)).within(&[2]),
        when_set("fc", 10, Object(&FC_VOLUME_SOURCE)).within(&[2]),
        when_set("flocker", 11, Object(&FLOCKER_VOLUME_SOURCE)).within(&[2]),
        when_set("flexVolume", 12, Object(&FLEX_PERSISTENT_VOLUME_SOURCE)).within(&[2]),
        when_set("azureFile", 13, Object(&AZURE_FILE_PERSISTENT_VOLUME_SOURCE)).within(&[2]),
        when_set("vsphereVolume", 14, Object(&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)).within(&[2]),
        when_set("quobyte", 15, Object(&QUOBYTE_VOLUME_SOURCE)).within(&[2]),
        when_set("azureDisk", 16, Object(&AZURE_DISK_VOLUME_SOURCE)).within(&[2]),
        when_set("photonPersistentDisk", 17, Object(&PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)).within(&[2]),
        when_set("portworxVolume", 18, Object(&PORTWORX_VOLUME_SOURCE)).within(&[2]),
        when_set("scaleIO", 19, Object(&SCALE_IO_PERSISTENT_VOLUME_SOURCE)).within(&[2]),
        when_set("local", 20, Object(&LOCAL_VOLUME_SOURCE)).within(&[2]),
        when_set("storageos", 21, Object(&STORAGE_OS_PERSISTENT_VOLUME_SOURCE)).within(&[2]),
        when_set("csi", 22, Object(&CSI_PERSISTENT_VOLUME_SOURCE)).within(&[2]),
        unless_zero("accessModes", 3, List(&Text)).one_of(values::VOLUME_ACCESS_MODES),
        when_set("claimRef", 4, Object(&OBJECT_REFERENCE)).granular(),
        unless_zero("persistentVolumeReclaimPolicy", 5, Text).one_of(values::RECLAIM_POLICIES),
        unless_zero("storageClassName", 6, Text),
        unless_zero("mountOptions", 7, List(&Text)),
        when_set("volumeMode", 8, Text).one_of(values::VOLUME_MODES),
        when_set("nodeAffinity", 9, Object(&VOLUME_NODE_AFFINITY)),
        when_set("volumeAttributesClassName", 10, Text),
    }
    PersistentVolumeStatus PERSISTENT_VOLUME_STATUS {
        unless_zero("phase", 1, Text).one_of(values::VOLUME_PHASES),
        unless_zero("message", 2, Text),
        unless_zero("reason", 3, Text),
        when_set("lastPhaseTransitionTime", 4, Time),
    }
    GlusterfsPersistentVolumeSource GLUSTERFS_PERSISTENT_VOLUME_SOURCE {
        always("endpoints", 1, Text),
        always("path", 2, Text),
        unless_zero("readOnly", 3, Bool),
        when_set("endpointsNamespace", 4, Text),
    }
    RBDPersistentVolumeSource RBD_PERSISTENT_VOLUME_SOURCE {
        always("monitors", 1, List(&Text)),
        always("image", 2, Text),
        unless_zero("fsType", 3, Text),
        unless_zero("pool", 4, Text),
        unless_zero("user", 5, Text),
        unless_zero("keyring", 6, Text),
        when_set("secretRef", 7, Object(&SECRET_REFERENCE)),
        unless_zero("readOnly", 8, Bool),
    }
    ISCSIPersistentVolumeSource ISCSI_PERSISTENT_VOLUME_SOURCE {
        always("targetPortal", 1, Text),
        always("iqn", 2, Text),
        always("lun", 3, Int32),
        unless_zero("iscsiInterface", 4, Text),
        unless_zero("fsType", 5, Text),
        unless_zero("readOnly", 6, Bool),
        unless_zero("portals", 7, List(&Text)),
        unless_zero("chapAuthDiscovery", 8, Bool),
        unless_zero("chapAuthSession", 11, Bool),
        when_set("secretRef", 10, Object(&SECRET_REFERENCE)),
        when_set("initiatorName", 12, Text),
    }
    CinderPersistentVolumeSource CINDER_PERSISTENT_VOLUME_SOURCE {
        always("volumeID", 1, Text),
        unless_zero("fsType", 2, Text),
        unless_zero("readOnly", 3, Bool),
        when_set("secretRef", 4, Object(&SECRET_REFERENCE)),
    }
    CephFSPersistentVolumeSource CEPH_FS_PERSISTENT_VOLUME_SOURCE {
        always("monitors", 1, List(&Text)),
        unless_zero("path", 2, Text),
        unless_zero("user", 3, Text),
        unless_zero("secretFile", 4, Text),
        when_set("secretRef", 5, Object(&SECRET_REFERENCE)),
        unless_zero("readOnly", 6, Bool),
    }
    FlexPersistentVolumeSource FLEX_PERSISTENT_VOLUME_SOURCE {
        always("driver", 1, Text),
        unless_zero("fsType", 2, Text),
        when_set("secretRef", 3, Object(&SECRET_REFERENCE)),
        unless_zero("readOnly", 4, Bool),
        unless_zero("options", 5, Map(&Text)),
    }
    AzureFilePersistentVolumeSource AZURE_FILE_PERSISTENT_VOLUME_SOURCE {
        always("secretName", 1, Text),
        always("shareName", 2, Text),
        unless_zero("readOnly", 3, Bool),
        or_null("secretNamespace", 4, Text),
    }
    ScaleIOPersistentVolumeSource SCALE_IO_PERSISTENT_VOLUME_SOURCE {
        always("gateway", 1, Text),
        always("system", 2, Text),
        or_null("secretRef", 3, Object(&SECRET_REFERENCE)).required(),
        unless_zero("sslEnabled", 4, Bool),
        unless_zero("protectionDomain", 5, Text),
        unless_zero("storagePool", 6, Text),
        unless_zero("storageMode", 7, Text),
        unless_zero("volumeName", 8, Text),
        unless_zero("fsType", 9, Text),
        unless_zero("readOnly", 10, Bool),
    }
    LocalVolumeSource LOCAL_VOLUME_SOURCE {
        always("path", 1, Text),
        when_set("fsType", 2, Text),
    }
    StorageOSPersistentVolumeSource STORAGE_OS_PERSISTENT_VOLUME_SOURCE {
        unless_zero("volumeName", 1, Text),
        unless_zero("volumeNamespace", 2, Text),
        unless_zero("fsType", 3, Text),
        unless_zero("readOnly", 4, Bool),
        when_set("secretRef", 5, Object(&OBJECT_REFERENCE)),
    }
    CSIPersistentVolumeSource CSI_PERSISTENT_VOLUME_SOURCE {
        always("driver", 1, Text),
        always("volumeHandle", 2, Text),
        unless_zero("readOnly", 3, Bool),
        unless_zero("fsType", 4, Text),
        unless_zero("volumeAttributes", 5, Map(&Text)),
        when_set("controllerPublishSecretRef", 6, Object(&SECRET_REFERENCE)),
        when_set("nodeStageSecretRef", 7, Object(&SECRET_REFERENCE)),
        when_set("nodePublishSecretRef", 8, Object(&SECRET_REFERENCE)),
        when_set("controllerExpandSecretRef", 9, Object(&SECRET_REFERENCE)),
        when_set("nodeExpandSecretRef", 10, Object(&SECRET_REFERENCE)),
    }
    VolumeNodeAffinity VOLUME_NODE_AFFINITY {
        when_set("required", 1, Object(&NODE_SELECTOR)),
    }
}
