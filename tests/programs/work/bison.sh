# Generates a large parser and its scanner with bison and flex, builds and runs them.
set -eu
seq 120 | awk '
    BEGIN {
        print "%{\n#include <stdio.h>\nint yylex(void);\nvoid yyerror(const char *);\n%}"
        print "%token NUMBER\n%left PLUS\n%left TIMES"
    }
    {
        print "%token K" $1
        rules = rules "  | K" $1 " expr COMMA expr END { $$ = $2 * " $1 " + $4; }\n"
    }
    END {
        print "%token COMMA END STOP\n%%\ninput: | input line ;"
        print "line: expr STOP { printf(\"%d\\n\", $1); } ;\nexpr: NUMBER"
        print "  | expr PLUS expr { $$ = $1 + $3; }\n  | expr TIMES expr { $$ = $1 * $3 % 10007; }"
        print rules ";\n%%"
        print "void yyerror(const char *s) { printf(\"%s\\n\", s); }\nint main(void) { return yyparse(); }"
    }' >parser.y
seq 120 | awk '
    BEGIN {
        print "%{\n#include <stdlib.h>\n#include \"parser.tab.h\"\n%}"
        print "%option noinput nounput noyywrap\n%%"
    }
    { print "word" $1 " return K" $1 ";" }
    END {
        print "[0-9]+ yylval = atoi(yytext); return NUMBER;\n[+] return PLUS;\n[*] return TIMES;"
        print "[,] return COMMA;\nend return END;\n[;] return STOP;\n[ \\t\\n]+ ;\n%%"
    }' >scanner.l
bison -d -v --report=all parser.y
flex -Cf scanner.l
cp parser.tab.c parser.output lex.yy.c out/
gcc -O1 -o calculate parser.tab.c lex.yy.c
seq 3000 | awk '{ print "word" $1 % 120 + 1, $1, "* 3 , word7", $1 % 9, ", 5 end + 2 end + 1;" }' |
    ./calculate
