"""A Proxmox VE on a free loopback port, with two guests' kinds, a node that is down, and one token per kind of trouble.

Says where it is and what its tokens are in one line of JSON on standard output, then serves until it is ended. Needs the
Python that has fakepve.
"""

import asyncio
import hashlib
import json
import sys
import tempfile
import uuid

from fakepve import FakePve
from fakepve.certs import make_cert

# What the role PVEAuditor holds in Proxmox VE 9.
AUDITOR = [
    "Datastore.Audit",
    "Mapping.Audit",
    "Pool.Audit",
    "SDN.Audit",
    "Sys.Audit",
    "VM.Audit",
    "VM.GuestAgent.Audit",
]
ACLS = {
    "reader@pve!coreci": [("/", AUDITOR)],
    "empty@pve!coreci": [],
    "writer@pve!coreci": [("/", [*AUDITOR, "VM.PowerMgmt"])],
    # No list: root may do everything.
    "root@pam!coreci": None,
}


async def main():
    pve = FakePve(password=str(uuid.uuid4()), host="127.0.0.1", port=0)
    pve.add_vm(110, "db", status="running", config={"scsi0": "local-lvm:vm-110-disk-0", "tags": "prod;sql"})
    pve.add_vm(101, "template", status="stopped", template=True)
    pve.add_ct(105, "proxy", status="running")
    pve.add_node("pve2", online=False)
    pve.acl = {name: acl for name, acl in ACLS.items() if acl is not None}
    pve.apitokens = {name: str(uuid.uuid4()) for name in ACLS}
    with tempfile.TemporaryDirectory() as folder:
        certificate, key, der = make_cert(folder, hosts=(pve.host,))
        await pve.start(certificate, key)
    tokens = {name.split("@")[0]: f"{name}={secret}" for name, secret in pve.apitokens.items()}
    facts = {"url": pve.url, "sha256": hashlib.sha256(der).hexdigest(), "tokens": tokens}
    json.dump(facts, sys.stdout)
    print(flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
