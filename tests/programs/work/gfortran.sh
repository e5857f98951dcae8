# Compiles a program with allocatable arrays of derived types and runs it.
set -eu
cat >main.f90 <<'END'
module lists
  implicit none
  type :: item
    integer :: id
    real(8), allocatable :: values(:)
    character(len=:), allocatable :: name
  end type
contains
  recursive subroutine quicksort(a, first, last)
    integer, intent(inout) :: a(:)
    integer, intent(in) :: first, last
    integer :: i, j, pivot, t
    if (first >= last) return
    pivot = a((first + last) / 2)
    i = first
    j = last
    do
      do while (a(i) < pivot)
        i = i + 1
      end do
      do while (a(j) > pivot)
        j = j - 1
      end do
      if (i >= j) exit
      t = a(i); a(i) = a(j); a(j) = t
      i = i + 1
      j = j - 1
    end do
    call quicksort(a, first, i - 1)
    call quicksort(a, j + 1, last)
  end subroutine
end module
program main
  use lists
  implicit none
  type(item), allocatable :: items(:)
  real(8), allocatable :: m(:, :), text(:)
  integer, allocatable :: keys(:)
  integer :: i
  allocate (items(20000))
  do i = 1, size(items)
    items(i)%id = i
    allocate (items(i)%values(mod(i * 7, 300) + 1), source=real(mod(i, 13), 8))
    items(i)%name = repeat(char(97 + mod(i, 26)), mod(i, 40))
  end do
  print '(f0.3)', sum([(sum(items(i)%values), i=1, size(items))])
  print *, sum([(len(items(i)%name), i=1, size(items))])
  allocate (m(300, 300))
  m = reshape([(mod(real(i * 7919, 8), 101d0), i=1, 90000)], [300, 300])
  print '(f0.1)', sum(matmul(m, transpose(m)))
  keys = [(mod(i * 7919, 100003), i=1, 60000)]
  call quicksort(keys, 1, size(keys))
  print *, keys(1:10), all(keys(2:) >= keys(:size(keys) - 1))
  text = pack(m(:, 1), m(:, 1) > 50)
  print *, size(text)
end program
END
gfortran -O2 -S main.f90 -o out/main.s
gfortran -O2 main.f90 -o main
./main
