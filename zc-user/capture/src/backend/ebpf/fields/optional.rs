//! Fields that a feature needs together: a kernel that lacks one of them lacks the feature, and nothing else.

use zc_ebpf::{ABSENT, KernelFields};

use super::MissingField;
use crate::backend::ebpf::btf::Btf;

/// Fills in the fields of a feature.
type Fill = fn(&Find<'_>, &mut KernelFields) -> Result<(), MissingField>;

/// What is unknown without the fields, and the fields. Files come first: the others are about them.
const FEATURES: [(&str, Fill); 6] = [
    ("which files calls are about is", files),
    ("paths of files are", paths),
    ("what sockets are and whom they talk to is", sockets),
    ("whom Unix sockets talk to is", unix_sockets),
    ("what io_uring's operations move is", rings),
    ("whether a write's buffer is a mapping of a file is", mappings),
];

/// Fills in the fields of every feature that this kernel has all fields of, and adds a note for each of the others.
pub fn fill(btf: &Btf<'_>, fields: &mut KernelFields, notes: &mut Vec<String>) {
    for (feature, fill) in FEATURES {
        let mut with_feature = *fields;
        match fill(&Find(btf), &mut with_feature) {
            Ok(()) => *fields = with_feature,
            Err(MissingField(name)) => notes.push(super::unknown(feature, name)),
        }
    }
}

/// Looks fields up by their full name.
struct Find<'a>(&'a Btf<'a>);

impl Find<'_> {
    /// The offset of a field: `file.f_path.mnt`.
    fn offset(&self, name: &'static str) -> Result<u32, MissingField> {
        let (structure, path) = name.split_once('.').ok_or(MissingField(name))?;
        let path: Vec<&str> = path.split('.').collect();
        self.0.offset_of(structure, &path).ok_or(MissingField(name))
    }
}

fn files(find: &Find<'_>, fields: &mut KernelFields) -> Result<(), MissingField> {
    fields.task_files = find.offset("task_struct.files")?;
    fields.files_users = find.offset("files_struct.count").unwrap_or(ABSENT);
    fields.files_fdt = find.offset("files_struct.fdt")?;
    fields.fdt_max_fds = find.offset("fdtable.max_fds")?;
    fields.fdt_fd = find.offset("fdtable.fd")?;
    fields.file_inode = find.offset("file.f_inode")?;
    fields.file_mode = find.offset("file.f_mode")?;
    fields.file_private_data = find.offset("file.private_data")?;
    fields.inode_number = find.offset("inode.i_ino")?;
    fields.inode_generation = find.offset("inode.i_generation")?;
    fields.inode_mode = find.offset("inode.i_mode")?;
    fields.inode_size = find.offset("inode.i_size")?;
    fields.inode_sb = find.offset("inode.i_sb")?;
    fields.sb_device = find.offset("super_block.s_dev")?;
    fields.sb_magic = find.offset("super_block.s_magic")?;
    fields.sb_type = find.offset("super_block.s_type")?;
    fields.sb_subtype = find.offset("super_block.s_subtype")?;
    fields.type_name = find.offset("file_system_type.name")?;
    Ok(())
}

fn paths(find: &Find<'_>, fields: &mut KernelFields) -> Result<(), MissingField> {
    fields.file_mount = find.offset("file.f_path.mnt")?;
    fields.file_dentry = find.offset("file.f_path.dentry")?;
    fields.dentry_parent = find.offset("dentry.d_parent")?;
    fields.dentry_name = find.offset("dentry.d_name.name")?;
    fields.mount_root = find.offset("vfsmount.mnt_root")?;
    fields.mount_mnt = find.offset("mount.mnt")?;
    fields.mount_parent = find.offset("mount.mnt_parent")?;
    fields.mount_mountpoint = find.offset("mount.mnt_mountpoint")?;
    fields.task_fs = find.offset("task_struct.fs")?;
    fields.fs_root_mount = find.offset("fs_struct.root.mnt")?;
    fields.fs_root_dentry = find.offset("fs_struct.root.dentry")?;
    Ok(())
}

fn sockets(find: &Find<'_>, fields: &mut KernelFields) -> Result<(), MissingField> {
    fields.socket_sk = find.offset("socket.sk")?;
    fields.sock_type = find.offset("sock.sk_type")?;
    fields.sock_protocol = find.offset("sock.sk_protocol")?;
    fields.sock_family = find.offset("sock.__sk_common.skc_family")?;
    fields.sock_local_port = find.offset("sock.__sk_common.skc_num")?;
    fields.sock_peer_port = find.offset("sock.__sk_common.skc_dport")?;
    fields.sock_local = find.offset("sock.__sk_common.skc_rcv_saddr")?;
    fields.sock_peer = find.offset("sock.__sk_common.skc_daddr")?;
    fields.sock_local_v6 = find.offset("sock.__sk_common.skc_v6_rcv_saddr").unwrap_or(ABSENT);
    fields.sock_peer_v6 = find.offset("sock.__sk_common.skc_v6_daddr").unwrap_or(ABSENT);
    Ok(())
}

fn unix_sockets(find: &Find<'_>, fields: &mut KernelFields) -> Result<(), MissingField> {
    fields.unix_address = find.offset("unix_sock.addr")?;
    fields.unix_peer = find.offset("unix_sock.peer")?;
    fields.unix_address_length = find.offset("unix_address.len")?;
    fields.unix_address_name = find.offset("unix_address.name")?;
    fields.sock_socket = find.offset("sock.sk_socket")?;
    fields.socket_inode = find.offset("socket_alloc.vfs_inode")?.wrapping_sub(find.offset("socket_alloc.socket")?);
    Ok(())
}

fn mappings(find: &Find<'_>, fields: &mut KernelFields) -> Result<(), MissingField> {
    fields.vma_start = find.offset("vm_area_struct.vm_start")?;
    fields.vma_end = find.offset("vm_area_struct.vm_end")?;
    fields.vma_flags = find.offset("vm_area_struct.vm_flags")?;
    fields.vma_page = find.offset("vm_area_struct.vm_pgoff")?;
    fields.vma_file = find.offset("vm_area_struct.vm_file")?;
    fields.inode_flags = find.offset("inode.i_flags")?;
    fields.mm_exe_file = find.offset("mm_struct.exe_file")?;
    fields.mm_changes = find.offset("mm_struct.mm_lock_seq").unwrap_or(ABSENT);
    Ok(())
}

fn rings(find: &Find<'_>, fields: &mut KernelFields) -> Result<(), MissingField> {
    fields.request_file = find.offset("io_kiocb.file")?;
    fields.request_ring = find.offset("io_kiocb.ctx")?;
    fields.request_opcode = find.offset("io_kiocb.opcode")?;
    fields.request_flags = find.offset("io_kiocb.flags")?;
    fields.request_result = find.offset("io_kiocb.cqe.res")?;
    fields.request_cqe_flags = find.offset("io_kiocb.cqe.flags")?;
    (fields.request_owner, fields.owner_task) = match find.offset("io_kiocb.tctx") {
        Ok(owner) => (owner, find.offset("io_uring_task.task")?),
        Err(_) => (find.offset("io_kiocb.task")?, ABSENT),
    };
    if let (Ok(command), Ok(input), Ok(flags)) =
        (find.offset("io_kiocb.cmd"), find.offset("io_splice.splice_fd_in"), find.offset("io_splice.flags"))
    {
        (fields.splice_input, fields.splice_flags) = (command + input, command + flags);
    }
    if let (Ok(command), Ok(address), Ok(length)) =
        (find.offset("io_kiocb.cmd"), find.offset("io_rw.addr"), find.offset("io_rw.len"))
    {
        (fields.rw_address, fields.rw_length) = (command + address, command + length);
    }
    Ok(())
}
