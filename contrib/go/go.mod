module zctrace

go 1.21
