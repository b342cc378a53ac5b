"""Words that surrogate names, places and organisations are made of: common ones, of nobody in particular."""

_FIRST = """
Adele Amir Anton Beatriz Bruno Carla Cedric Clara Daria David Elena Emil Esther Fabio Farid Flora Gerda Gustav Hanna Hugo Imani
Irina Ivan Jana Jonas Julia Kamil Karin Katya Leila Leon Lukas Magda Malik Marco Maria Marta Milan Mira Nadia Nils Nora Olga Oscar
Pablo Paula Petra Rafael Renata Rosa Samir Selma Silvia Simon Stella Tamar Teresa Tomas Ulrich Vera Victor Wanda Yara Yusuf Zoltan
"""
_LAST = """
Abbasi Alvarez Andersen Baker Bauer Benitez Bergman Borg Castro Cohen Costa Dahl Delgado Dubois Eriksen Fischer Fontana Garcia
Gruber Haddad Hansen Hoffmann Ibarra Ivanov Jansen Kaplan Keller Kovacs Kruger Larsen Lindqvist Lopez Marino Mendez Moreau Nakamura
Navarro Novak Okafor Olsen Papadakis Pereira Petrov Quist Ramos Richter Rossi Santos Schmidt Silva Sokolov Sorensen Tanaka Torres
Urban Vargas Vasquez Vogel Weber Winter Yilmaz Zimmer
"""
_PLACES = """
Ashford Brookfield Castlemere Dunmore Eastwick Fairhaven Glenwood Harrowgate Ironbridge Kingsbury Lakewood Marlow Northfield
Oakridge Pinehurst Queensferry Riverton Southgate Thornbury Underhill Westbrook Yarrow
"""
_ORGS = """
Altavia Bluemont Corvane Deltaire Eastmark Ferrox Granvia Helioth Intervale Junova Kestrova Lumenor Meridane Novacrest Orbitane
Pallavon Quorate Ravenna Solvent Tessaro Umbrix Valcourt Westaline Zephora
"""
FIRST, LAST, PLACES, ORGS = (tuple(words.split()) for words in (_FIRST, _LAST, _PLACES, _ORGS))
CHINESE_FIRST = "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗"
CHINESE_REST = "伟芳娜敏静丽强磊军洋勇艳杰娟涛明超霞平刚"
