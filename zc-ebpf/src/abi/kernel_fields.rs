//! Where the fields of the kernel's own structs stand: Rust cannot emit relocations for that, so user space looks them up.

/// In [`KernelFields`]: this kernel has no such field.
pub const ABSENT: u32 = u32::MAX;

macro_rules! kernel_fields {
    ($($(#[$about:meta])+ $field:ident,)+) => {
        /// Offsets in bytes of the kernel's own fields, found in the kernel's BTF by user space; [`ABSENT`] where a kernel has no such
        /// field.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct KernelFields {
            $($(#[$about])+ pub $field: u32,)+
        }

        impl KernelFields {
            /// No field is known.
            pub const NONE: Self = Self { $($field: ABSENT,)+ };
        }
    };
}

kernel_fields! {
    /// `task_struct.__state` (`state` before 5.14).
    task_state,
    /// `task_struct.group_leader`.
    task_group_leader,
    /// `task_struct.thread_pid`.
    task_thread_pid,
    /// `pid.level`.
    pid_level,
    /// `pid.numbers`, an array of `upid`.
    pid_numbers,
    /// Size of `upid`, whose first field is the number.
    upid_size,
    /// `task_struct.thread_info.status`, whose bit 1 (`TS_COMPAT`) marks a 32-bit call. Only x86 needs it.
    task_compat_status,
    /// `pt_regs.syscallno`: the number of the call. Only arm64 needs it.
    registers_number,
    /// `pt_regs.orig_x0`: the first argument, also when the call returns. Only arm64 needs it.
    registers_first_argument,
    /// `task_struct.pending.signal`: the signals that await this task alone. Without it, a call that its task does not survive has returned.
    task_signals,
    /// `task_struct.flags`.
    task_flags,
    /// `task_struct.comm`.
    task_comm,
    /// `task_struct.utime`.
    task_utime,
    /// `task_struct.stime`.
    task_stime,
    /// `task_struct.se.sum_exec_runtime`.
    task_runtime,
    /// `task_struct.nvcsw`.
    task_nvcsw,
    /// `task_struct.nivcsw`.
    task_nivcsw,
    /// `task_struct.min_flt`.
    task_min_flt,
    /// `task_struct.maj_flt`.
    task_maj_flt,
    /// `task_struct.mm`.
    task_mm,
    /// `mm_struct.arg_start`.
    mm_arg_start,
    /// `mm_struct.arg_end`.
    mm_arg_end,
    /// `linux_binprm.filename`.
    binprm_filename,

    // From a descriptor to its file. All of them are known, or none.
    /// `task_struct.files`.
    task_files,
    /// `files_struct.count`, 4 bytes. Without it every descriptor is looked up each time.
    files_users,
    /// `files_struct.fdt`.
    files_fdt,
    /// `fdtable.max_fds`.
    fdt_max_fds,
    /// `fdtable.fd`.
    fdt_fd,
    /// `file.f_inode`.
    file_inode,
    /// `file.f_mode`.
    file_mode,
    /// `file.private_data`.
    file_private_data,
    /// `inode.i_ino`.
    inode_number,
    /// `inode.i_generation`.
    inode_generation,
    /// `inode.i_mode`.
    inode_mode,
    /// `inode.i_size`.
    inode_size,
    /// `inode.i_sb`.
    inode_sb,
    /// `super_block.s_dev`.
    sb_device,
    /// `super_block.s_magic`.
    sb_magic,
    /// `super_block.s_type`.
    sb_type,
    /// `super_block.s_subtype`.
    sb_subtype,
    /// `file_system_type.name`.
    type_name,

    // The path of a file. All of them are known, or none.
    /// `file.f_path.mnt`.
    file_mount,
    /// `file.f_path.dentry`.
    file_dentry,
    /// `dentry.d_parent`.
    dentry_parent,
    /// `dentry.d_name.name`.
    dentry_name,
    /// `vfsmount.mnt_root`.
    mount_root,
    /// `mount.mnt`, a `vfsmount`.
    mount_mnt,
    /// `mount.mnt_parent`.
    mount_parent,
    /// `mount.mnt_mountpoint`.
    mount_mountpoint,
    /// `task_struct.fs`.
    task_fs,
    /// `fs_struct.root.mnt`.
    fs_root_mount,
    /// `fs_struct.root.dentry`.
    fs_root_dentry,

    // What a socket is. All of them are known, or none.
    /// `socket.sk`.
    socket_sk,
    /// `sock.sk_type`.
    sock_type,
    /// `sock.sk_protocol`.
    sock_protocol,
    /// `sock.__sk_common.skc_family`.
    sock_family,
    /// `sock.__sk_common.skc_num`, in the machine's byte order.
    sock_local_port,
    /// `sock.__sk_common.skc_dport`, in the network's byte order.
    sock_peer_port,
    /// `sock.__sk_common.skc_rcv_saddr`.
    sock_local,
    /// `sock.__sk_common.skc_daddr`.
    sock_peer,
    /// `sock.__sk_common.skc_v6_rcv_saddr`; a kernel without IPv6 has none.
    sock_local_v6,
    /// `sock.__sk_common.skc_v6_daddr`; a kernel without IPv6 has none.
    sock_peer_v6,

    // Whom a Unix socket talks to. All of them are known, or none.
    /// `unix_sock.addr`.
    unix_address,
    /// `unix_sock.peer`.
    unix_peer,
    /// `unix_address.len`.
    unix_address_length,
    /// `unix_address.name`, a `sockaddr_un`.
    unix_address_name,
    /// `sock.sk_socket`.
    sock_socket,
    /// `socket_alloc.vfs_inode` less `socket_alloc.socket`.
    socket_inode,

    // The mapping that a buffer lies in. All of them are known, or none.
    /// `vm_area_struct.vm_start`.
    vma_start,
    /// `vm_area_struct.vm_end`.
    vma_end,
    /// `vm_area_struct.vm_flags`.
    vma_flags,
    /// `vm_area_struct.vm_file`.
    vma_file,
    /// `vm_area_struct.vm_pgoff`: the page of the file that the mapping begins with.
    vma_page,
    /// `inode.i_flags`.
    inode_flags,
    /// `mm_struct.exe_file`.
    mm_exe_file,
    /// `mm_struct.mm_lock_seq`, which changes with every change of the mappings. Without it (before 6.4) they are looked up each time.
    mm_changes,

    // What an io_uring does. All of them are known, or none.
    /// `io_kiocb.file`.
    request_file,
    /// `io_kiocb.ctx`: its ring.
    request_ring,
    /// `io_kiocb.opcode`, 1 byte.
    request_opcode,
    /// `io_kiocb.flags`, whose lower bits are those of an `io_uring_sqe`.
    request_flags,
    /// `io_kiocb.cqe.res`.
    request_result,
    /// `io_kiocb.cqe.flags`.
    request_cqe_flags,
    /// `io_kiocb.tctx`, or (before 6.13) `io_kiocb.task`.
    request_owner,
    /// `io_uring_task.task`, where the owner is no task itself.
    owner_task,
    /// `io_splice.splice_fd_in`, from the beginning of the `io_kiocb`. A kernel without it (before 6.0) does not tell.
    splice_input,
    /// `io_splice.flags`, likewise.
    splice_flags,
    /// `io_rw.addr`, likewise: where the buffer of a read or write is.
    rw_address,
    /// `io_rw.len`, likewise.
    rw_length,
}
